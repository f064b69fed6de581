package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/internal/remote"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
)

// maxListDepth, maxListDirs and maxListErrors are how deep ls -R goes, how many
// directories it lists and how many errors it prints: a server can make up directories
// without end.
const (
	maxListDepth  = 1000
	maxListDirs   = treecopy.DefaultMaxDirs
	maxListErrors = 1000
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

// A lister is one run of haul ls.
type lister struct {
	long, recursive, all, asJSON, human bool

	order   func(a, b listed) int // besides by name; nil for none
	reverse bool

	out    *bufio.Writer
	errs   []error
	more   int                 // errors besides
	dirs   int                 // directories that were begun
	name   func(string) string // how names are shown
	now    time.Time
	titles bool // each directory has a line with its name
	begun  bool // something was printed
}

func newLs() *cobra.Command {
	var f sshFlags
	var w webFlags
	l := new(lister)
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
				l.out = bufio.NewWriterSize(cmd.OutOrStdout(), 64<<10)
				l.name, l.now = console.NameFormat(cmd.OutOrStdout()), time.Now()
				l.run(ctx, s, list)
				if err := l.out.Flush(); err != nil {
					l.errs = append(l.errs, failure.Local.Errorf("write the list: %w", err))
				}
				if l.more > 0 {
					l.errs = append(l.errs, failure.Remote.Errorf("%d more errors are not shown", l.more))
				}
				return errors.Join(l.errs...)
			})
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&l.long, "long", "l", false, "show permissions, owner, size and time")
	flags.BoolVarP(&l.recursive, "recursive", "R", false, "list directories in directories too")
	flags.BoolVarP(&l.all, "all", "a", false, "list names that begin with a dot too")
	flags.BoolFuncP("by-time", "t", "sort by time, newest first", l.sortBy(newerFirst))
	flags.BoolFuncP("by-size", "S", "sort by size, largest first; directories come last", l.sortBy(largerFirst))
	flags.BoolVarP(&l.reverse, "reverse", "r", false, "reverse the order")
	flags.BoolP("one", "1", false, "print one name a line, as ls always does here")
	flags.BoolVar(&l.asJSON, "json", false, "print a JSON object for each entry")
	humanFlag(cmd, &l.human, "with -l, show sizes as 1.5M")
	addServers(cmd, &f, &w)
	return cmd
}

// A listed is an entry, with the directory it was found in.
type listed struct {
	fs.FileInfo
	path   string // for the server
	shown  string // as it is printed: the name, or the path that was asked for
	target string // of a symbolic link

	modeless bool // the protocol does not tell modes
}

// run lists the locations: the files among them first, as ls does.
func (l *lister) run(ctx context.Context, s *remote.Servers, locations []remote.Location) {
	type found struct {
		c remote.Server
		listed
	}
	var files, dirs []found
	for _, loc := range locations {
		c, list, errs := entries(ctx, s, loc, false)
		l.failed(errs...)
		for _, e := range list {
			if e.Mode().Type() == fs.ModeSymlink && !l.long {
				if to, err := c.Stat(ctx, e.path); err == nil && to.IsDir() {
					e.FileInfo = to // as ls does
				}
			}
			if e.IsDir() {
				dirs = append(dirs, found{c, e})
			} else {
				files = append(files, found{c, e})
			}
		}
	}
	l.titles = l.recursive || len(files)+len(dirs) > 1 || len(locations) > 1
	for len(files) > 0 { // those of one server after the other
		c := files[0].c
		var same []listed
		for len(files) > 0 && files[0].c == c {
			same = append(same, files[0].listed)
			files = files[1:]
		}
		l.print(ctx, c, same)
		l.begun = true
	}
	for _, d := range dirs {
		l.directory(ctx, d.c, d.path, 0)
	}
}

// failed notes errors, to be printed at the end.
func (l *lister) failed(errs ...error) {
	n := min(len(errs), max(maxListErrors-len(l.errs), 0))
	l.errs = append(l.errs, errs[:n]...)
	l.more += len(errs) - n
}

// directory lists one.
func (l *lister) directory(ctx context.Context, c remote.Server, dir string, depth int) {
	entries, err := c.List(ctx, dir, l.detailed())
	if err != nil {
		l.failed(failure.Remote.Wrap(err))
		return
	}
	if l.titles && !l.asJSON {
		if l.begun {
			fmt.Fprintln(l.out)
		}
		fmt.Fprintf(l.out, "%s:\n", l.name(dir))
	}
	l.begun = true
	list := make([]listed, 0, len(entries))
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") && !l.all {
			continue
		}
		fi, err := e.Info()
		if err != nil {
			l.failed(failure.Remote.Wrap(err))
			continue
		}
		list = append(list, listed{FileInfo: fi, path: below(dir, e.Name()), shown: e.Name(), modeless: !c.HasModes()})
	}
	l.print(ctx, c, list)
	l.listBelow(ctx, c, dir, depth, list)
}

// listBelow lists the directories of a list that was printed, with -R.
func (l *lister) listBelow(ctx context.Context, c remote.Server, dir string, depth int, list []listed) {
	if l.recursive && depth == maxListDepth {
		l.failed(failure.Remote.Errorf("list %s: deeper than %d directories", console.Visible(dir), maxListDepth))
		return
	}
	for _, e := range list {
		if !l.recursive || ctx.Err() != nil || l.dirs > maxListDirs {
			return
		}
		if name := e.Name(); !e.IsDir() || name == "." || !store.ValidName(name) { // a hostile listing may have any
			continue
		}
		if l.dirs++; l.dirs > maxListDirs {
			l.failed(failure.Remote.Errorf("list %s: it is directory %d, and no more are listed; list the directories above it one by one", console.Visible(e.path), l.dirs))
			return
		}
		l.directory(ctx, c, e.path, depth+1)
	}
}

// below returns the path of a name in a directory.
func below(dir, name string) string {
	switch {
	case dir == ".":
		return name
	case strings.HasSuffix(dir, "/"):
		return dir + name
	}
	return dir + "/" + name // not cleaned: what it means depends on links
}

// sortBy returns what sets a flag that selects an order.
func (l *lister) sortBy(order func(a, b listed) int) func(string) error {
	return func(value string) error {
		on, err := strconv.ParseBool(value)
		if l.order = nil; on {
			l.order = order
		}
		return err
	}
}

// newerFirst and largerFirst compare entries for -t and -S.
func newerFirst(a, b listed) int  { return b.ModTime().Compare(a.ModTime()) }
func largerFirst(a, b listed) int { return cmp.Compare(b.fileSize(), a.fileSize()) }

// fileSize is the size of a file. Directories come behind all files: the size that some
// servers give them says nothing of what is in them, and HTTP has none.
func (e listed) fileSize() int64 {
	if e.IsDir() {
		return math.MinInt64
	}
	return e.Size()
}

// sort sorts entries in the order that was asked for.
func (l *lister) sort(list []listed) {
	slices.SortFunc(list, func(a, b listed) int {
		c := 0
		if l.order != nil {
			c = l.order(a, b)
		}
		if c = cmp.Or(c, cmp.Compare(a.shown, b.shown)); l.reverse {
			c = -c
		}
		return c
	})
}

// detailed reports whether more than names is needed of entries.
func (l *lister) detailed() bool { return l.long || l.asJSON || l.order != nil }

// print prints the entries of one directory.
func (l *lister) print(ctx context.Context, c remote.Server, list []listed) {
	l.sort(list)
	if !l.long && !l.asJSON {
		for _, e := range list {
			fmt.Fprintln(l.out, l.name(e.shown))
		}
		return
	}
	readLinks(ctx, c, list)
	owners := ownersOf(ctx, c, list)
	if l.asJSON {
		for _, e := range list {
			l.failed(writeJSON(l.out, describe(e, owners))...)
		}
		return
	}
	rows := make([][]string, len(list))
	for i, e := range list {
		rows[i] = longRow(e, owners, l.now, l.human)
	}
	widths := console.ColumnWidths(rows)
	for i, row := range rows {
		for j, cell := range row {
			// Numbers to the right, words to the left, as ls has it.
			width := widths[j]
			if len(row) == sftpColumns && (j == 2 || j == 3) {
				width = -width
			}
			fmt.Fprintf(l.out, "%*s ", width, l.name(cell))
		}
		fmt.Fprint(l.out, l.name(list[i].shown))
		if list[i].target != "" {
			fmt.Fprintf(l.out, " -> %s", l.name(list[i].target))
		}
		fmt.Fprintln(l.out)
	}
}

// readLinks finds out where symbolic links lead. One that cannot be read leads
// nowhere that is shown.
func readLinks(ctx context.Context, c remote.Server, list []listed) {
	var links []int
	for i, e := range list {
		if e.Mode().Type() == fs.ModeSymlink {
			links = append(links, i)
		}
	}
	each(links, func(i int) (struct{}, bool) {
		list[i].target, _ = c.Readlink(ctx, list[i].path)
		return struct{}{}, false
	})
}

// asksAtOnce is how many questions are put to a server at a time, where each
// answer is one of many.
const asksAtOnce = 64

// each calls f for each item, some at the same time, and returns the results for
// which f said so, in the order of the items.
func each[T, R any](items []T, f func(T) (R, bool)) []R {
	type result struct {
		value R
		ok    bool
	}
	all := make([]R, 0, len(items))
	for len(items) > 0 {
		part := items[:min(len(items), asksAtOnce)]
		items = items[len(part):]
		results := make([]result, len(part))
		done := make(chan struct{})
		for i, item := range part {
			go func() {
				results[i].value, results[i].ok = f(item)
				done <- struct{}{}
			}()
		}
		for range part {
			<-done
		}
		for _, r := range results {
			if r.ok {
				all = append(all, r.value)
			}
		}
	}
	return all
}

// writeJSON writes a value on a line of its own, in characters that do nothing to
// a terminal.
func writeJSON(w io.Writer, v any) []error {
	e := json.NewEncoder(console.NewPlainWriter(w))
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return []error{failure.Local.Wrap(err)}
	}
	return nil
}
