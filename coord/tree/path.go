package tree

import (
	"strings"
	"unicode/utf8"
)

// ValidPath tells whether the path names a node: absolute, no empty component, no "." or "..", no control characters, no slash at
// the end (but "/" itself).
func ValidPath(path string) bool {
	if path == "/" {
		return true
	}
	if len(path) < 2 || path[0] != '/' || !utf8.ValidString(path) {
		return false
	}
	start := 1
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			if c := path[i]; c < 0x20 || c == 0x7f {
				return false
			}
			continue
		}
		switch path[start:i] {
		case "", ".", "..":
			return false
		}
		start = i + 1
	}
	return true
}

// Parent is the path of the node above; of "/" it is "".
func Parent(path string) string {
	switch i := strings.LastIndexByte(path, '/'); {
	case len(path) <= 1:
		return ""
	case i <= 0:
		return "/"
	default:
		return path[:i]
	}
}

// base is the last component of a path other than "/".
func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// join is the path of a child.
func join(parent, name string) string {
	if parent == "/" {
		return "/" + name
	}
	return parent + "/" + name
}
