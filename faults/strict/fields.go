package strict

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"

	"faultline/faults/quantity"
)

// Field documents one field of a file, from the comment and the tags of the struct field that it is read into.
type Field struct {
	Path    string // topology.topics[].name
	Kind    string // duration, size, count, ..., text, section, list
	Default string // "" for none
	Allowed string // bounds or words, "" for anything of the kind
	Need    bool
	Each    bool
	About   string
}

// Fields documents every field below the struct. sources are the Go files with the comments, as text.
func Fields(root any, sources ...string) []Field {
	comments := map[string]string{}
	for _, src := range sources {
		file, err := parser.ParseFile(token.NewFileSet(), "", src, parser.ParseComments)
		if err != nil {
			panic(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				for _, f := range s.Fields.List {
					for _, name := range f.Names {
						comments[spec.Name.Name+"."+name.Name] = strings.Join(strings.Fields(f.Doc.Text()), " ")
					}
				}
			}
			return true
		})
	}
	var out []Field
	fields(&out, reflect.TypeOf(root), "", comments)
	return out
}

func fields(out *[]Field, t reflect.Type, path string, comments map[string]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		tags := f.Tag
		if tags.Get("yaml") == "" {
			continue
		}
		doc := Field{
			Path: join(path, tags.Get("yaml")), Default: tags.Get("default"), Need: tags.Get("need") != "", Each: tags.Get("each") != "",
			About: comments[t.Name()+"."+f.Name],
		}
		min, max := tags.Get("min"), tags.Get("max")
		switch {
		case tags.Get("oneof") != "":
			doc.Allowed = alternatives(tags.Get("oneof"))
		case min != "" && max != "":
			doc.Allowed = min + " to " + max
		case min != "":
			doc.Allowed = "at least " + min
		case max != "":
			doc.Allowed = "at most " + max
		}
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		doc.Kind = kindOf(inner)
		*out = append(*out, doc)
		switch doc.Kind {
		case "section":
			fields(out, inner, doc.Path, comments)
		case "list":
			fields(out, inner.Elem(), doc.Path+"[]", comments)
		}
	}
}

func kindOf(t reflect.Type) string {
	switch reflect.New(t).Elem().Interface().(type) {
	case quantity.Durations:
		return "duration"
	case quantity.Sizes:
		return "size"
	case quantity.Bandwidths:
		return "bandwidth"
	case quantity.Rates:
		return "rate"
	case quantity.Percents:
		return "percent"
	case quantity.Counts:
		return "count"
	case quantity.Choice:
		return "word"
	}
	switch {
	case t.Kind() == reflect.Struct:
		return "section"
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		return "list"
	case t.Kind() == reflect.Slice:
		return "texts"
	case t.Kind() == reflect.String:
		return "text"
	case t.Kind() == reflect.Float64:
		return "number"
	}
	panic(fmt.Sprintf("strict: no name for %v", t))
}
