// Command faultline runs a whole Kafka-style log system in a simulated world, breaks it, and judges what it promised.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	exitClean       = 0
	exitViolation   = 1 // a run failed or could not be judged
	exitUsage       = 2 // bad usage, scenario or environment
	exitInterrupted = 130
)

// exit is an error that only sets the exit code: everything was said already.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit %d", int(e)) }

func main() { os.Exit(run()) }

// run is the program; it returns the exit code.
func run() int {
	root := &cobra.Command{
		Use:   "faultline",
		Short: "A log system in a simulated world: run fault scenarios, replay failures from their seed, draw throughput",
		Long: `faultline runs a Kafka-style log system (brokers, coordination service, producers, consumer groups) over a virtual clock,
disk and network. One seed decides everything, so a failure comes back, bit for bit, from its seed.

Exit codes: 0 all clean, 1 a promise was broken or could not be judged, 2 bad usage or scenario, 130 interrupted.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(runCommand(), replayCommand(), scenariosCommand(), benchCommand(), reportCommand(), calibrateCommand(), serverCommand(), serveCommand(), versionCommand())
	err := root.Execute()
	var code exit
	switch {
	case err == nil:
		return exitClean
	case errors.As(err, &code):
		return int(code)
	}
	fmt.Fprintln(os.Stderr, "faultline:", err)
	return exitUsage
}
