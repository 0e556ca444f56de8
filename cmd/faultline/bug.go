package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

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
	fmt.Fprintf(os.Stderr, "planting %s: %s\n", m.Row, m.Title)
	building, done := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = m.Build(building, root, binary)
	done()
	if errors.Is(err, context.Canceled) {
		return exit(exitInterrupted)
	}
	if err != nil {
		return err
	}
	child := exec.Command(binary, withoutBug(os.Args[1:])...)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	child.Env = append(os.Environ(), plantedBug+"="+m.Row)
	ownGroup(child) // a Ctrl-C reaches it through us only, once
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if err := child.Start(); err != nil {
		return err
	}
	go func() {
		for s := range signals {
			child.Process.Signal(s)
		}
	}()
	var ended *exec.ExitError
	switch err := child.Wait(); {
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

// bugRows lists the rows that can be planted.
func bugRows() string {
	all, err := mutants.All()
	if err != nil {
		panic(err) // the files are part of the program, and tested
	}
	rows := make([]string, len(all))
	for i, m := range all {
		rows[i] = m.Row
	}
	return strings.Join(rows, " ")
}
