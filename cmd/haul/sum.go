package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/cmd/haul/internal/cli/commandline"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/fileops"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
)

const sumHelp = `Print hashes of files on a server, or check them, as sha256sum does.

A server that can hash a file does so, and the file is not moved: over SFTP one with
check-file, as haul's, and over S3 where it keeps the hash of the whole file. Else haul
reads the file. --read always does: then the hash is of what has arrived. A file of this
machine is hashed as well.

--check reads lists of hashes on this machine, - for standard input, and compares the
files in them: those below LOCATION, or without it those of this machine. Its messages are
those of sha256sum. Without --algorithm, the length of each hash says what it is. haul
fails if a file differs or cannot be read, or if no line of a list is a hash.`

const sumExamples = `  haul sum host:disk.img
  haul sum -r host:images/ > SHA256SUMS
  haul sum --check SHA256SUMS host:
  haul sum --check SHA256SUMS --ignore-missing --quiet
  haul sum --algorithm md5 --tag 's3://bucket/*.iso'`

func newSum() *cobra.Command {
	var f sshFlags
	var w webFlags
	var c fileops.SumConfig
	var lists []string
	cmd := &cobra.Command{
		Use:         "sum LOCATION... | sum --check FILE [LOCATION]",
		SuggestFor:  []string{"check", "hashsum", "md5sum", "sha1sum", "sha256sum"},
		Short:       "Print or check hashes of files on a server",
		Long:        sumHelp,
		Example:     sumExamples,
		Annotations: commandline.More("algorithm recursive check quiet status ignore-missing strict tag read batch identity jump port", "locations", "patterns"),
		RunE: func(cmd *cobra.Command, words []string) error {
			c.Say = func(err error) { printError(cmd.ErrOrStderr(), err) }
			if err := checkSumFlags(cmd, words, lists); err != nil {
				return err
			}
			run := func(ctx context.Context, s *remote.Servers, list []remote.Location) error {
				if len(lists) == 0 {
					return fileops.Sum(ctx, s, list, c, cmd.OutOrStdout())
				}
				return fileops.CheckSums(ctx, s, lists, list, c, cmd.InOrStdin(), cmd.OutOrStdout())
			}
			if len(words) == 0 {
				return run(cmd.Context(), nil, nil)
			}
			return onServersOrHere(cmd, &f, &w, words, run)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&c.Algorithm, "algorithm", "a", "", "`NAME` of the hash: md5, sha1, sha224, sha256 (the default), sha384 or sha512")
	flags.BoolVarP(&c.Recursive, "recursive", "r", false, "sum all files in directories")
	flags.BoolVar(&c.Read, "read", false, "read every file, and do not ask the server for its hash")
	flags.BoolVar(&c.Tag, "tag", false, "print lines as BSD does, with the name of the algorithm")
	flags.BoolVarP(&c.Zero, "zero", "z", false, "end lines with a NUL, and escape no names")
	flags.StringArrayVarP(&lists, "check", "c", nil, "check the files that `FILE` lists; repeat for more")
	flags.BoolVarP(&c.Quiet, "quiet", "q", false, "with --check, print no OK")
	flags.BoolVar(&c.Status, "status", false, "with --check, print no results: the exit code has them")
	flags.BoolVar(&c.IgnoreMissing, "ignore-missing", false, "with --check, pass over files that do not exist")
	flags.BoolVar(&c.Strict, "strict", false, "with --check, fail if a line is no hash")
	flags.BoolVarP(&c.Warn, "warn", "w", false, "with --check, name each line that is no hash")
	commandline.CompleteWords(cmd, "algorithm", "md5", "sha1", "sha224", "sha256", "sha384", "sha512")
	addServers(cmd, &f, &w)
	return cmd
}

// checkSumFlags returns an error for flags of haul sum that exclude each other.
func checkSumFlags(cmd *cobra.Command, words, lists []string) error {
	wrong, where := []string{"quiet", "status", "ignore-missing", "strict", "warn"}, "without"
	switch {
	case len(lists) > 0:
		wrong, where = []string{"tag", "zero", "recursive"}, "with"
		if len(words) > 1 {
			return failure.Usage.Errorf("sum --check: one LOCATION has all files of the lists; %q is too much", words[1])
		}
	case len(words) == 0:
		return failure.Usage.Errorf("sum: LOCATION is missing")
	}
	for _, name := range wrong {
		if cmd.Flags().Changed(name) {
			return failure.Usage.Errorf("--%s: not %s --check", name, where)
		}
	}
	return nil
}
