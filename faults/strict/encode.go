package strict

import (
	"encoding"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"faultline/faults/quantity"
)

// Encode writes the struct that v is or points to as YAML that [Decode] reads back to the same value. Fields with their default
// value are left out. A list of structs that implement Flow is written one item a line.
func Encode(v any) []byte {
	var b strings.Builder
	block(&b, reflect.Indirect(reflect.ValueOf(v)), "")
	return []byte(b.String())
}

// Flow marks a struct that is written on one line: {a: 1, b: 2}.
type Flow interface{ FlowStyle() }

// Line writes a struct on one line, in braces.
func Line(v any) string {
	val := reflect.Indirect(reflect.ValueOf(v))
	var parts []string
	for i := range val.NumField() {
		f := val.Type().Field(i)
		if f.Tag.Get("yaml") == "" || f.Tag.Get("need") == "" && isDefault(val.Field(i), f.Tag) {
			continue
		}
		parts = append(parts, f.Tag.Get("yaml")+": "+inline(val.Field(i)))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func block(b *strings.Builder, v reflect.Value, indent string) {
	for i := range v.NumField() {
		f, x := v.Type().Field(i), v.Field(i)
		name := f.Tag.Get("yaml")
		if name == "" || f.Tag.Get("need") == "" && isDefault(x, f.Tag) {
			continue
		}
		if x.Kind() == reflect.Pointer {
			x = x.Elem()
		}
		switch {
		case isScalar(x):
			fmt.Fprintf(b, "%s%s: %s\n", indent, name, inline(x))
		case x.Kind() == reflect.Struct && onlyShort(x) != "":
			fmt.Fprintf(b, "%s%s: %s\n", indent, name, onlyShort(x))
		case x.Kind() == reflect.Struct:
			head := b.Len()
			fmt.Fprintf(b, "%s%s:\n", indent, name)
			body := b.Len()
			block(b, x, indent+"  ")
			if b.Len() == body { // a section that is given, with all defaults
				text := b.String()[:head]
				b.Reset()
				fmt.Fprintf(b, "%s%s%s: {}\n", text, indent, name)
			}
		case x.Kind() == reflect.Slice && x.Type().Elem().Kind() == reflect.String:
			fmt.Fprintf(b, "%s%s: %s\n", indent, name, inline(x))
		default:
			fmt.Fprintf(b, "%s%s:\n", indent, name)
			for j := range x.Len() {
				item(b, x.Index(j), indent+"  ")
			}
		}
	}
}

// onlyShort is the value of the struct's short field when it is the only one that is not a default, else "".
func onlyShort(v reflect.Value) string {
	text := ""
	for i := range v.NumField() {
		f := v.Type().Field(i)
		switch {
		case f.Tag.Get("yaml") == "" || isDefault(v.Field(i), f.Tag):
		case f.Tag.Get("short") == "":
			return ""
		default:
			text = inline(v.Field(i))
		}
	}
	return text
}

func item(b *strings.Builder, v reflect.Value, indent string) {
	if _, flow := v.Interface().(Flow); flow {
		fmt.Fprintf(b, "%s- %s\n", indent, Line(v.Interface()))
		return
	}
	var body strings.Builder
	block(&body, v, indent+"  ")
	if body.Len() == 0 {
		fmt.Fprintf(b, "%s- {}\n", indent)
		return
	}
	b.WriteString(indent + "- " + body.String()[len(indent)+2:])
}

func isScalar(v reflect.Value) bool {
	switch v.Interface().(type) {
	case quantity.Choice, encoding.TextMarshaler:
		return true
	}
	return v.Kind() == reflect.String
}

func inline(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case quantity.Choice:
		if x.Fixed() {
			return quote(x.V())
		}
		return list(x.Options)
	case encoding.TextMarshaler:
		text, err := x.MarshalText()
		if err != nil {
			panic(err)
		}
		return quote(string(text))
	case []string:
		return list(x)
	}
	return quote(v.String())
}

func list(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = quote(w)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// plain texts need no quotes, neither in a block nor between braces.
var plain = regexp.MustCompile(`^[A-Za-z0-9+./_-][A-Za-z0-9 +./_*%<=>()-]*$`)

func quote(s string) string {
	switch strings.ToLower(s) {
	case "null", "true", "false", "yes", "no", "on", "off", "y", "n", ".inf", ".nan", "-", "---", "...":
		return strconv.Quote(s)
	}
	if !plain.MatchString(s) || strings.HasSuffix(s, " ") || strings.HasPrefix(s, "- ") || strings.Contains(s, " -") {
		return strconv.Quote(s)
	}
	return s
}
