package main

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
)

//go:embed reasons.yaml
var reasonsFile []byte

// loadReasons reads why a place is allowed to stay unreached, by place.
func loadReasons() (map[string]string, error) { return parseReasons(reasonsFile) }

func parseReasons(text []byte) (map[string]string, error) {
	out := map[string]string{}
	if err := yaml.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("reasons.yaml: %w", err)
	}
	for place, reason := range out {
		if strings.TrimSpace(reason) == "" {
			return nil, fmt.Errorf("reasons.yaml: %s has no reason", place)
		}
	}
	return out, nil
}
