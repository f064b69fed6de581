package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

func newProbe() *cobra.Command {
	var f transferFlags
	cmd := &cobra.Command{
		Use:   "probe URL...",
		Short: "Print the size of files without fetching them",
		Long: `Print the size in bytes of the file at each URL. No data is fetched: the server
tells the size by the option tsize.`,
		Example: "  haul probe tftp://192.0.2.1/boot/kernel",
		Args:    args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, urls []string) error {
			tracer, err := f.trace.open(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer closeTrace(tracer, cmd.ErrOrStderr())
			c, err := f.client(tracer)
			if err != nil {
				return err
			}
			var failed []error
			for _, u := range urls {
				t, err := f.file(u)
				if err != nil {
					return err
				}
				size, err := c.Size(cmd.Context(), t)
				switch {
				case err != nil:
					failed = append(failed, err)
				case len(urls) == 1:
					fmt.Fprintln(cmd.OutOrStdout(), size)
				default:
					fmt.Fprintln(cmd.OutOrStdout(), size, t)
				}
			}
			return errors.Join(failed...)
		},
	}
	f.add(cmd)
	return cmd
}
