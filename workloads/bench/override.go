package bench

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// override sets values in a YAML file, each PATH=VALUE. A path is names with dots between them, and the number of an entry in a list, from 0; what is missing on the way is made.
func override(data []byte, set []string) ([]byte, error) {
	var root yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(data, &root, yaml.UseOrderedMap()); err != nil {
		return nil, err
	}
	for _, s := range set {
		path, text, ok := strings.Cut(s, "=")
		if !ok {
			return nil, fmt.Errorf("found %q, allowed is PATH=VALUE, like topology.brokers=3", s)
		}
		var value any
		if err := yaml.UnmarshalWithOptions([]byte(text), &value, yaml.UseOrderedMap()); err != nil {
			return nil, fmt.Errorf("value of %s: %w", path, err)
		}
		out, err := put(root, strings.Split(strings.TrimSpace(path), "."), value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		root = out.(yaml.MapSlice)
	}
	return yaml.Marshal(root)
}

// put returns node with value at the path.
func put(node any, path []string, value any) (any, error) {
	if len(path) == 0 {
		return value, nil
	}
	step := path[0]
	if i, err := strconv.Atoi(step); err == nil {
		list, ok := node.([]any)
		if node != nil && !ok {
			return nil, fmt.Errorf("entry %s of something that is no list", step)
		}
		if i < 0 || i > len(list) {
			return nil, fmt.Errorf("found entry %s, the list has %d entries", step, len(list))
		}
		if i == len(list) {
			list = append(list, nil)
		}
		list[i], err = put(list[i], path[1:], value)
		return list, err
	}
	if short, ok := node.(uint64); ok { // brokers: 3
		node = yaml.MapSlice{{Key: "count", Value: short}}
	}
	m, ok := node.(yaml.MapSlice)
	if node != nil && !ok {
		return nil, fmt.Errorf("%s of something that is no mapping", step)
	}
	for i := range m {
		if m[i].Key == step {
			var err error
			m[i].Value, err = put(m[i].Value, path[1:], value)
			return m, err
		}
	}
	v, err := put(nil, path[1:], value)
	return append(m, yaml.MapItem{Key: step, Value: v}), err
}
