package mutants

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Build compiles the program with the bug planted, from the sources below root, into the file binary. It needs the go command.
func (m Mutant) Build(ctx context.Context, root, binary string) error {
	dir, err := os.MkdirTemp("", "faultline-"+m.Row+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	overlay, err := m.Overlay(root, dir)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "-o", binary, "./cmd/faultline")
	cmd.Dir = root
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("mutant %s does not build: %w\n%s", m.Row, err, out.Bytes())
	}
	return nil
}

// Root finds the module's root directory at or above dir.
func Root(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		data, err := os.ReadFile(filepath.Join(at, "go.mod"))
		if err == nil && bytes.HasPrefix(data, []byte("module faultline\n")) {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("%w: there is none at or above %s", ErrNoSource, dir)
		}
	}
}
