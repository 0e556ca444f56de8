//go:build !linux

package campaign

// HugePages changes something on Linux only.
func HugePages() {}
