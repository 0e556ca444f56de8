package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"faultline/faults/mutants"
)

// plantedBug is the environment variable that tells a program which bug was compiled into it.
const plantedBug = "FAULTLINE_BUG"

// plantBug builds this program with the bug in it and runs it with the same arguments but --bug.
func plantBug(cmd *cobra.Command, row string) error {
	m, err := mutants.Find(row)
	if err != nil {
		return err
	}
	root, err := mutants.Root(".")
	if err != nil {
		return fmt.Errorf("--bug: %w", err)
	}
	dir, err := os.MkdirTemp("", "faultline-bug-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "faultline")
	if err := m.Build(root, binary); err != nil {
		return err
	}
	signal.Ignore(os.Interrupt) // the program below gets it too, and ends cleanly
	child := exec.Command(binary, withoutBug(os.Args[1:])...)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	child.Env = append(os.Environ(), plantedBug+"="+m.Row)
	var ended *exec.ExitError
	switch err := child.Run(); {
	case errors.As(err, &ended):
		return exit(ended.ExitCode())
	default:
		return err
	}
}

// withoutBug drops --bug ROW and --bug=ROW.
func withoutBug(args []string) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "--bug":
			i++
		case !strings.HasPrefix(args[i], "--bug="):
			out = append(out, args[i])
		}
	}
	return slices.Clip(out)
}
