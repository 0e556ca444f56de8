// Package strict reads YAML into tagged structs and reports everything that is wrong, each problem with its line and column, with
// what was found and with what is allowed. It writes them back, and documents them from their own comments.
//
// Tags of a field:
//
//	yaml:"name"       its name in the file
//	need:"true"       it must be given, and be no empty list
//	default:"10s"     its value when it is not given
//	min:"1" max:"16"  its bounds (quantities)
//	oneof:"a|b"       the words that are allowed (strings and choices)
//	short:"true"      a bare scalar in place of the mapping sets this field
//	each:"true"       a range of it is not drawn per seed (see package scenario)
//
// Scalars are strings and whatever implements [encoding.TextUnmarshaler], whose error says what was found and what is allowed.
// Anchors, aliases, tags and merge keys are refused: a scenario says what it means where it says it.
package strict

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"faultline/faults/quantity"
)

// Bounds on what is read and told.
const (
	maxBytes = 1 << 20 // of a file
	maxDepth = 64      // of brackets: the parser's work grows with its square
	maxShown = 50      // problems told in full
)

// tooMuch refuses a file that is no scenario, before the parser sees it.
func tooMuch(file string, data []byte) *Problem {
	if len(data) > maxBytes {
		return &Problem{file, 1, 1, fmt.Sprintf("found %d bytes, allowed is %d", len(data), maxBytes)}
	}
	depth, line, column := 0, 1, 0
	for _, c := range data {
		column++
		switch c {
		case '\n':
			line, column = line+1, 0
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		case 0:
			return &Problem{file, line, column, "found a NUL byte, allowed is text"}
		}
		if depth > maxDepth {
			return &Problem{file, line, column, fmt.Sprintf("found brackets %d deep, allowed is %d", depth, maxDepth)}
		}
	}
	return nil
}

// Doc is a file that was read: where each field stands, for checks that look at several of them.
type Doc struct {
	File   string
	places map[string]*token.Position
	given  map[string]bool
}

// Given tells whether the file gives the field. Paths are like "topology.groups[0].name".
func (d *Doc) Given(path string) bool { return d != nil && d.given[path] }

// Decode reads data into the struct that out points to. Fields that are not given get their defaults, also inside of sections that
// are not given. The file name is only used in problems.
func Decode(file string, data []byte, out any) (*Doc, Problems) {
	d := &decoder{doc: &Doc{File: file, places: map[string]*token.Position{}, given: map[string]bool{}}}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if p := tooMuch(file, data); p != nil {
		return d.doc, Problems{*p}
	}
	tree, err := parse(data)
	if err != nil {
		p := Problem{File: file, Text: err.Error()}
		var at yaml.Error
		if errors.As(err, &at) {
			p.Text = "not YAML: " + at.GetMessage()
			if t := at.GetToken(); t != nil {
				p.Line, p.Column = t.Position.Line, t.Position.Column
			}
		}
		return d.doc, Problems{p}
	}
	v := reflect.ValueOf(out).Elem()
	switch {
	case len(tree.Docs) > 1 && tree.Docs[1].Body != nil:
		d.problem(tree.Docs[1].Body, "", "found a second document, allowed is one")
	case len(tree.Docs) == 0 || tree.Docs[0].Body == nil || tree.Docs[0].Body.Type() == ast.CommentType:
		d.problems = append(d.problems, Problem{file, 1, 1, "found an empty file, allowed is a mapping"})
	default:
		d.value(tree.Docs[0].Body, v, "", "")
	}
	return d.doc, d.problems
}

// parse makes an error of a panic of the parser: what a person wrote must not end the program.
func parse(data []byte) (tree *ast.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("not YAML: the parser gave up (%v)", r)
		}
	}()
	return parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
}

type decoder struct {
	doc      *Doc
	problems Problems
}

func (d *decoder) problem(n ast.Node, path, format string, args ...any) {
	at := position(n)
	p := Problem{File: d.doc.File, Line: at.Line, Column: at.Column, Text: fmt.Sprintf(format, args...)}
	if path != "" {
		p.Text = path + ": " + p.Text
	}
	d.problems = append(d.problems, p)
}

// position is where a person would say that the node begins.
func position(n ast.Node) *token.Position {
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 && !m.IsFlowStyle {
		n = m.Values[0].Key
	}
	return n.GetToken().Position
}

// value decodes a node of the given type. tags are those of the field that it belongs to.
func (d *decoder) value(n ast.Node, v reflect.Value, path string, tags reflect.StructTag) {
	d.doc.places[path] = position(n)
	switch n.(type) {
	case *ast.AliasNode, *ast.AnchorNode, *ast.TagNode:
		d.problem(n, path, "found %s, allowed are plain values only", strings.ToLower(n.Type().String()))
		return
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		v = v.Elem()
	}
	switch target := v.Addr().Interface().(type) {
	case *quantity.Choice:
		d.choice(n, target, path, tags)
		return
	case encoding.TextUnmarshaler:
		if text, ok := d.scalar(n, path); ok {
			d.text(n, text, target, path, tags)
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.mapping(n, v, path)
	case reflect.Slice:
		list, ok := n.(*ast.SequenceNode)
		if !ok {
			d.problem(n, path, "found %s, allowed is a list", describe(n))
			return
		}
		if len(list.Values) == 0 {
			if tags.Get("need") != "" {
				d.problem(n, path, "found an empty list, allowed is one entry or more")
			}
			v.SetZero()
			return
		}
		out := reflect.MakeSlice(v.Type(), len(list.Values), len(list.Values))
		for i, item := range list.Values {
			d.value(item, out.Index(i), fmt.Sprintf("%s[%d]", path, i), tags)
		}
		v.Set(out)
	case reflect.String:
		if text, ok := d.scalar(n, path); ok {
			if words := tags.Get("oneof"); words != "" && !d.oneOf(n, text, words, path) {
				return
			}
			v.SetString(text)
		}
	default:
		panic("strict: no way to read a " + v.Type().String())
	}
}

func (d *decoder) mapping(n ast.Node, v reflect.Value, path string) {
	t := v.Type()
	m, ok := n.(*ast.MappingNode)
	if !ok {
		for i := range t.NumField() {
			if _, isList := n.(*ast.SequenceNode); t.Field(i).Tag.Get("short") != "" && !isList && n.Type() != ast.NullType {
				Defaults(v.Addr().Interface())
				d.value(n, v.Field(i), join(path, t.Field(i).Tag.Get("yaml")), t.Field(i).Tag)
				return
			}
		}
		d.problem(n, path, "found %s, allowed is a mapping with %s", describe(n), strings.Join(names(t), ", "))
		return
	}
	seen := map[string]bool{}
	for _, pair := range m.Values {
		if _, merge := pair.Key.(*ast.MergeKeyNode); merge {
			d.problem(pair.Key, path, "found a merge key, allowed are plain values only")
			continue
		}
		name := pair.Key.GetToken().Value
		field, known := fieldNamed(t, name)
		switch {
		case !known:
			allowed := names(t)
			d.problem(pair.Key, path, "found the unknown field %q, allowed is %s%s", name, strings.Join(allowed, ", "), quantity.DidYouMean(name, allowed))
		case seen[name]:
			d.problem(pair.Key, join(path, name), "found a second time, allowed is once")
		default:
			seen[name] = true
			at := join(path, name)
			d.doc.given[at] = true
			d.value(pair.Value, v.FieldByIndex(field.Index), at, field.Tag)
		}
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name := f.Tag.Get("yaml")
		if name == "" || seen[name] {
			continue
		}
		if f.Tag.Get("need") != "" {
			d.problem(n, path, "the field %q is missing", name)
		}
		setDefault(v.Field(i), f.Tag)
	}
}

// scalar is the text of a scalar as it stands in the file.
func (d *decoder) scalar(n ast.Node, path string) (string, bool) {
	switch s := n.(type) {
	case *ast.LiteralNode:
		return s.Value.Value, true
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	}
	d.problem(n, path, "found %s, allowed is a single value", describe(n))
	return "", false
}

func (d *decoder) text(n ast.Node, text string, target encoding.TextUnmarshaler, path string, tags reflect.StructTag) {
	if err := target.UnmarshalText([]byte(text)); err != nil {
		d.problem(n, path, "%v", err)
		return
	}
	if r, ok := target.(interface{ Within(min, max string) error }); ok {
		if err := r.Within(tags.Get("min"), tags.Get("max")); err != nil {
			d.problem(n, path, "%v", err)
		}
	}
}

func (d *decoder) choice(n ast.Node, target *quantity.Choice, path string, tags reflect.StructTag) {
	items := []ast.Node{n}
	if list, ok := n.(*ast.SequenceNode); ok {
		items = list.Values
		if len(items) == 0 {
			d.problem(n, path, "found an empty list, allowed is one or more of %s", alternatives(tags.Get("oneof")))
		}
	}
	*target = quantity.Choice{}
	for _, item := range items {
		text, ok := d.scalar(item, path)
		if !ok || !d.oneOf(item, text, tags.Get("oneof"), path) {
			continue
		}
		target.Options = append(target.Options, text)
	}
}

func (d *decoder) oneOf(n ast.Node, text, words, path string) bool {
	for _, word := range strings.Split(words, "|") {
		if text == word {
			return true
		}
	}
	d.problem(n, path, "found %q, allowed is %s%s", text, alternatives(words), quantity.DidYouMean(text, strings.Split(words, "|")))
	return false
}

func alternatives(words string) string {
	list := strings.Split(words, "|")
	if len(list) == 1 {
		return list[0]
	}
	return strings.Join(list[:len(list)-1], ", ") + " or " + list[len(list)-1]
}

func describe(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "nothing"
	}
	return fmt.Sprintf("%q", n.GetToken().Value)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func names(t reflect.Type) []string {
	var out []string
	for i := range t.NumField() {
		if name := t.Field(i).Tag.Get("yaml"); name != "" {
			out = append(out, name)
		}
	}
	return out
}

func fieldNamed(t reflect.Type, name string) (reflect.StructField, bool) {
	for i := range t.NumField() {
		if t.Field(i).Tag.Get("yaml") == name && name != "" {
			return t.Field(i), true
		}
	}
	return reflect.StructField{}, false
}
