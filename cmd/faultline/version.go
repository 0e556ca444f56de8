package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"faultline/reports"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the build",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "faultline", reports.Build())
			return err
		},
	}
}
