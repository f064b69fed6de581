package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/cmd/haul/internal/cli/commandline"
	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/store/cache"
)

const cacheHelp = `List, check and clear the cache of a server.

A server whose files are elsewhere keeps blocks of them in a directory. These commands
work while a server uses it, too.`

func newCache() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "cache",
		Short:   "List, check and clear the cache of a server",
		Long:    cacheHelp,
		Example: "  haul cache ls /var/cache/haul\n  haul cache verify /var/cache/haul",
		Args:    program.NoCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newCacheCommand("ls", "List the files in a cache", cacheLsHelp, listCache),
		newCacheCommand("verify", "Check all blocks in a cache", cacheVerifyHelp, verifyCache),
		newCacheCommand("clear", "Remove all blocks from a cache", cacheClearHelp, clearCache))
	return cmd
}

const (
	cacheLsHelp = `List the files of which a cache has blocks.

Each line has how many bytes are there, of how many, the source and the name. Two versions
of a file are two lines.

The last line counts the files in DIR that the cache has not made, if there are some.`

	cacheVerifyHelp = `Read all blocks in a cache and compare their checksums.

Blocks with another content than was stored are removed and printed, and the exit code is
1. A server fetches them again.

Files in DIR that the cache has not made are printed, too. They do not count against
--cache-size, and a server removes those in DIR/objects when it starts.`

	cacheClearHelp = `Remove all blocks from a cache.

A server that uses it continues with the blocks that it has open, and fetches the others
again. Files in DIR that the cache has not made stay, and are printed.`
)

// newCacheCommand returns the subcommand of "haul cache" that calls run with the directory of a
// cache.
func newCacheCommand(name, short, help string, run func(ctx context.Context, out io.Writer, dir string) error) *cobra.Command {
	return &cobra.Command{
		Use:     name + " DIR",
		Short:   short,
		Long:    help,
		Example: "  haul cache " + name + " /var/cache/haul",
		Args:    commandline.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return run(cmd.Context(), cmd.OutOrStdout(), args[0])
		},
	}
}

func listCache(ctx context.Context, out io.Writer, dir string) error {
	var all []cache.Object
	var foreign int64
	err := cache.List(ctx, dir, func(o cache.Object) error {
		all = append(all, o)
		return nil
	}, func(string, bool) { foreign++ })
	slices.SortFunc(all, func(a, b cache.Object) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
	})
	shown := console.NameFormat(out)
	for _, o := range all {
		fmt.Fprintf(out, "%8s of %8s  %s  %s\n", console.HumanSize(o.Bytes), console.HumanSize(o.Size), shown(o.Source), shown(o.Name))
	}
	if foreign > 0 {
		fmt.Fprintf(out, "and %s that the cache has not made; haul cache verify names them\n", console.Plural(foreign, "file"))
	}
	return failure.Local.Wrap(err)
}

func verifyCache(ctx context.Context, out io.Writer, dir string) error {
	shown := console.NameFormat(out)
	r, err := cache.Verify(ctx, dir, func(o cache.Object, block int64, err error) {
		fmt.Fprintf(out, "%s  %s, block %d: %v\n", shown(o.Source), shown(o.Name), block, err)
	}, nameForeign(out, ""))
	if err != nil {
		return failure.Local.Wrap(err)
	}
	fmt.Fprintf(out, "%s, %s, %s\n", console.Plural(r.Objects, "file"), console.Plural(r.Blocks, "block"), console.FormatBytes(r.Bytes))
	if r.Corrupt > 0 {
		return fmt.Errorf("%s of the cache in %s had another content than was stored, and went: a server fetches what it needs again", console.Plural(r.Corrupt, "block"), dir)
	}
	return nil
}

func clearCache(ctx context.Context, out io.Writer, dir string) error {
	r, err := cache.Clear(ctx, dir, nameForeign(out, "kept "))
	if err == nil {
		fmt.Fprintf(out, "removed %s, %s, %s\n", console.Plural(r.Objects, "file"), console.Plural(r.Blocks, "block"), console.FormatBytes(r.Bytes))
	}
	return failure.Local.Wrap(err)
}

// nameForeign returns a function that prints the name of a file that the cache did not create. The
// line begins with the text `before`. If swept is set, it says that a server will remove the file.
func nameForeign(out io.Writer, before string) func(name string, swept bool) {
	shown := console.NameFormat(out)
	return func(name string, swept bool) {
		what := "the cache has not made this"
		if swept {
			what += "; a server removes it when it starts"
		}
		fmt.Fprintf(out, "%s%s: %s\n", before, shown(name), what)
	}
}
