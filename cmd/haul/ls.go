package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/fileops"
	"github.com/haul-project/haul/internal/remote"
)

const lsHelp = `List files on an SFTP or a web server.

Entries are sorted by name, with -t by time and with -S by size, newest and largest
first; -r reverses the order. -l shows what ls -l does; a dash stands for what the
server does not report. On a terminal, characters of a name that do not print are
shown as escapes.

A web server must list its directories: in JSON, as haul, Caddy and nginx
(autoindex_format json) do, or by a page of Apache, nginx, lighttpd or Python's
http.server. Over HTTP there are type, size, time and name only.`

const lsExamples = `  haul ls host:
  haul ls -la sftp://backup@192.0.2.1/srv/images
  haul ls 'host:logs/*.gz'
  haul ls -l https://example.com/images/
  haul ls -R --json host:/srv | jq -r 'select(.size > 1e9).path'`

func newLs() *cobra.Command {
	var f sshFlags
	var w webFlags
	var l fileops.ListConfig
	cmd := &cobra.Command{
		Use:         "ls LOCATION...",
		Aliases:     []string{"list", "dir"},
		Short:       "List files on a server",
		Long:        lsHelp,
		Example:     lsExamples,
		Args:        args(cobra.MinimumNArgs(1)),
		Annotations: more("long all recursive by-time by-size reverse human-readable json batch identity jump port", "locations", "patterns", "json"),
		RunE: func(cmd *cobra.Command, words []string) error {
			return onServers(cmd, &f, &w, words, func(ctx context.Context, s *remote.Servers, list []remote.Location) error {
				return fileops.List(ctx, s, list, l, cmd.OutOrStdout())
			})
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&l.Long, "long", "l", false, "show permissions, owner, size and time")
	flags.BoolVarP(&l.Recursive, "recursive", "R", false, "list directories in directories too")
	flags.BoolVarP(&l.All, "all", "a", false, "list names that begin with a dot too")
	flags.BoolFuncP("by-time", "t", "sort by time, newest first", sortBy(&l.Order, fileops.ByTime))
	flags.BoolFuncP("by-size", "S", "sort by size, largest first; directories come last", sortBy(&l.Order, fileops.BySize))
	flags.BoolVarP(&l.Reverse, "reverse", "r", false, "reverse the order")
	flags.BoolP("one", "1", false, "print one name a line, as ls always does here")
	flags.BoolVar(&l.JSON, "json", false, "print a JSON object for each entry")
	humanFlag(cmd, &l.Human, "with -l, show sizes as 1.5M")
	addServers(cmd, &f, &w)
	return cmd
}

// sortBy returns what sets a flag that selects an order.
func sortBy(to *fileops.Order, order fileops.Order) func(string) error {
	return func(value string) error {
		on, err := strconv.ParseBool(value)
		if *to = fileops.ByName; on {
			*to = order
		}
		return err
	}
}
