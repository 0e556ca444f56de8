package strict

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"

	"faultline/faults/quantity"
)

// Defaults sets every field of the struct that out points to, and of the structs in it, to its default.
func Defaults(out any) {
	v := reflect.ValueOf(out).Elem()
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.Tag.Get("yaml") != "" {
			setDefault(v.Field(i), f.Tag)
		}
	}
}

func setDefault(v reflect.Value, tags reflect.StructTag) {
	text := tags.Get("default")
	switch target := v.Addr().Interface().(type) {
	case *quantity.Choice:
		*target = parseChoice(text)
	case encoding.TextUnmarshaler:
		v.SetZero()
		if text != "" {
			if err := target.UnmarshalText([]byte(text)); err != nil {
				panic(fmt.Sprintf("strict: default %q: %v", text, err))
			}
		}
	default:
		switch v.Kind() {
		case reflect.Struct:
			Defaults(v.Addr().Interface())
		case reflect.String:
			v.SetString(text)
		default:
			v.SetZero()
		}
	}
}

func parseChoice(text string) quantity.Choice {
	if text == "" {
		return quantity.Choice{}
	}
	return quantity.Choose(strings.Split(strings.Trim(text, "[]"), ", ")...)
}

// isDefault tells whether a field has the value that it gets when the file does not give it.
func isDefault(v reflect.Value, tags reflect.StructTag) bool {
	fresh := reflect.New(v.Type()).Elem()
	setDefault(fresh, tags)
	return reflect.DeepEqual(fresh.Interface(), v.Interface())
}
