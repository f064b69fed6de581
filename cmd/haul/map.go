package main

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/cmd/haul/internal/cli/commandline"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/publicfiles"
	"github.com/haul-project/haul/cmd/haul/internal/server/site"
)

const mapTestHelp = `Show how the rules of a map rewrite names, rule by rule.

FILE has rules as tftpd-hpa takes them by -m. For each NAME, haul shows what "haul
serve --map FILE" would make of it for a client that asks for it. Without a NAME, haul
checks the rules only.`

const mapTestExamples = `  haul map test rules                            check the rules
  haul map test rules '\boot\bcd' pxelinux.0
  haul map test rules config --write --from 192.0.2.7`

func newMap() *cobra.Command {
	cmd := &cobra.Command{
		Use:         "map",
		Short:       "Try rules that rewrite names",
		Long:        "Try rules that rewrite names, before a server uses them.",
		Example:     "  haul map test rules '\\boot\\bcd'",
		Annotations: commandline.More("", "serve files"),
		Args:        program.NoCommand,
		RunE:        func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newMapTest())
	return cmd
}

func newMapTest() *cobra.Command {
	var from string
	var write bool
	var exist []string
	cmd := &cobra.Command{
		Use:         "test FILE NAME...",
		Short:       "Show what a map makes of names",
		Long:        mapTestHelp,
		Example:     mapTestExamples,
		Args:        commandline.Args(cobra.MinimumNArgs(1)),
		Annotations: commandline.More("", "serve files"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := netip.ParseAddr(from)
			if err != nil {
				return failure.Usage.Errorf("--from %s: it is an address, such as 192.0.2.7", from)
			}
			rules, err := publicfiles.ReadMap(args[0])
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if len(args) == 1 {
				fmt.Fprintf(out, "%s: %d rules, no mistake found\n", args[0], rules.Len())
			}
			var failed []error
			for _, name := range args[1:] {
				exists := func(name string) bool { return containsName(exist, name) }
				if err := site.TraceMap(out, rules, site.MapQuery(name, write, client.Unmap(), exists)); err != nil {
					failed = append(failed, fmt.Errorf("map %q: %w", name, err))
				}
			}
			return errors.Join(failed...)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&from, "from", "192.0.2.1", "ask as the client at `ADDRESS`")
	flags.BoolVar(&write, "write", false, "ask to write")
	flags.StringSliceVar(&exist, "exists", nil, "assume that `NAME` exists, for rules that ask; several are separated by commas")
	return cmd
}

func containsName(names []string, name string) bool {
	for _, n := range names {
		if strings.TrimLeft(n, "/") == strings.TrimLeft(name, "/") {
			return true
		}
	}
	return false
}
