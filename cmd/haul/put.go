package main

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/tftp"
)

func newPut() *cobra.Command {
	var f transferFlags
	var parallel int
	cmd := &cobra.Command{
		Use:   "put FILE... URL",
		Short: "Send files",
		Long: `Send a file to the URL, or several files to a URL that ends in a slash, under
their own names. When haul ends without an error, the server has acknowledged
every file whole.`,
		Example: `  haul put firmware.bin tftp://192.0.2.1/firmware.bin
  haul put a.cfg b.cfg tftp://192.0.2.1/configs/`,
		Args: args(cobra.MinimumNArgs(2)),
		RunE: func(cmd *cobra.Command, words []string) error {
			if parallel < 1 {
				return usagef("--parallel %d: must be above 0", parallel)
			}
			jobs, err := f.uploads(words[:len(words)-1], words[len(words)-1])
			if err != nil {
				return err
			}
			show := newProgress(cmd.ErrOrStderr(), f.quiet, len(f.trace.peers) == 0)
			return f.runJobs(cmd.Context(), jobs, parallel, show, cmd.ErrOrStderr())
		},
	}
	f.add(cmd)
	cmd.Flags().IntVar(&parallel, "parallel", 8, "how many files to send at the same time")
	return cmd
}

// uploads works out the name of each file on the server.
func (f *transferFlags) uploads(files []string, rawURL string) ([]transferJob, error) {
	t, err := f.target(rawURL)
	if err != nil {
		return nil, err
	}
	intoDir := t.Name == "" || strings.HasSuffix(t.Name, "/")
	if len(files) > 1 && !intoDir {
		return nil, usagef("several files need a URL that ends in a slash, and %v does not", t)
	}
	var jobs []transferJob
	for _, file := range files {
		if file == "-" {
			return nil, usagef("standard input cannot be sent: TFTP names the size first; send a file")
		}
		to := t
		if intoDir {
			to.Name += filepath.Base(file)
		}
		jobs = append(jobs, transferJob{label: filepath.Base(file), run: func(ctx context.Context, c *tftp.Client) (tftp.Result, error) {
			return c.PutFile(ctx, file, to.String())
		}})
	}
	return jobs, nil
}
