package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"faultline/reports"
	"faultline/scenarios"
	"faultline/workloads/scenario"
)

func scenariosCommand() *cobra.Command {
	var json bool
	c := &cobra.Command{
		Use:   "scenarios",
		Short: "List the scenarios that ship, show one, check a file",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			for _, name := range scenarios.Names() {
				sc, err := scenarios.Load(name)
				if err != nil {
					return err
				}
				if json {
					if err := reports.WriteJSON(out, map[string]string{"name": name, "about": sc.About}); err != nil {
						return err
					}
					continue
				}
				fmt.Fprintf(tw, "%s\t%s\n", name, sc.About)
			}
			return tw.Flush()
		},
	}
	c.Flags().BoolVar(&json, "json", false, "print one JSON object a line")
	c.AddCommand(showCommand(), checkCommand())
	return c
}

func showCommand() *cobra.Command {
	var fields bool
	var seed uint64
	c := &cobra.Command{
		Use:   "show SCENARIO",
		Short: "Print a scenario, as it is written or as a seed draws it",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			if fields {
				_, err := io.WriteString(out, scenario.Manual())
				return err
			}
			if len(args) == 0 {
				return fmt.Errorf("show what? Give a scenario, or --fields for the reference of scenario files")
			}
			sc, err := loadScenario(args[0])
			if err != nil {
				return err
			}
			text := sc.Marshal()
			if cmd.Flags().Changed("seed") {
				text = sc.Draw(seed).MarshalDrawn()
			}
			_, err = out.Write(text)
			return err
		},
	}
	c.Flags().BoolVar(&fields, "fields", false, "print the reference of all fields instead")
	c.Flags().Uint64Var(&seed, "seed", 0, "show it as this seed draws it, each fault with its number")
	return c
}

func checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE...",
		Short: "Check scenario files",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			bad := 0
			for _, a := range args {
				if _, err := loadScenario(a); err != nil {
					fmt.Fprintln(cmd.ErrOrStderr(), err)
					bad++
					continue
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s: ok\n", a)
			}
			if bad > 0 {
				return exit(exitUsage)
			}
			return nil
		},
	}
}
