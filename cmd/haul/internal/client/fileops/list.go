package fileops

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
)

// A ListConfig says what haul ls prints.
type ListConfig struct {
	Long      bool // print permissions, owner, size and time too
	Recursive bool
	All       bool // include names that begin with a dot
	JSON      bool // print an object for each entry
	Human     bool // print sizes in short form, such as 1.5M
	Order     Order
	Reverse   bool
}

// An Order is an order in which entries are listed. Entries that are equal in this order are sorted
// by name.
type Order int

// These are the orders of entries.
const (
	ByName Order = iota
	ByTime       // newest first
	BySize       // largest first, directories after all files
)

// A lister is one execution of haul ls.
type lister struct {
	ListConfig
	problems
	walk
	out    *bufio.Writer
	name   func(string) string // formats names for output
	now    time.Time
	titles bool // print each directory's name above its entries
	begun  bool // a directory has been printed, so the next one follows an empty line
}

// List lists the files at locations.
func List(ctx context.Context, s *remote.Servers, at []remote.Location, cfg ListConfig, out io.Writer) error {
	l := &lister{ListConfig: cfg, out: bufio.NewWriterSize(out, 64<<10), name: console.NameFormat(out), now: time.Now()}
	l.flush = l.out.Flush
	l.run(ctx, s, at)
	l.failed(l.write())
	return l.err()
}

// run lists the locations. As in ls, files come before directories.
func (l *lister) run(ctx context.Context, s *remote.Servers, locations []remote.Location) {
	type found struct {
		c remote.Server
		entry
	}
	var files, dirs []found
	for _, loc := range locations {
		c, list, errs := entries(ctx, s, loc, false)
		l.failed(errs...)
		for _, e := range list {
			if e.Mode().Type() == fs.ModeSymlink && !l.Long {
				if to, err := c.Stat(ctx, e.path); err == nil && to.IsDir() {
					e.FileInfo = to // as in ls, a link to a directory is listed as that directory
				}
			}
			if e.IsDir() {
				dirs = append(dirs, found{c, e})
			} else {
				files = append(files, found{c, e})
			}
		}
	}
	l.titles = l.Recursive || len(files)+len(dirs) > 1 || len(locations) > 1
	for len(files) > 0 { // each iteration prints the files that are on one server
		c := files[0].c
		var same []entry
		for len(files) > 0 && files[0].c == c {
			same = append(same, files[0].entry)
			files = files[1:]
		}
		l.print(ctx, c, same)
		l.begun = true
	}
	for _, d := range dirs {
		l.directory(ctx, d.c, d.path, 0)
	}
}

// directory lists one directory and, with -R, the directories in it.
func (l *lister) directory(ctx context.Context, c remote.Server, dir string, depth int) {
	list, errs := l.list(ctx, c, dir, depth, l.detailed())
	l.failed(errs...)
	if list == nil {
		return
	}
	if l.titles && !l.JSON {
		if l.begun {
			fmt.Fprintln(l.out)
		}
		fmt.Fprintf(l.out, "%s:\n", l.name(dir))
	}
	l.begun = true
	list = slices.DeleteFunc(list, func(e entry) bool { return strings.HasPrefix(e.shown, ".") && !l.All })
	l.print(ctx, c, list)
	for _, e := range list {
		if l.Recursive && e.IsDir() && !l.over(c) {
			l.directory(ctx, c, e.path, depth+1)
		}
	}
}

// sort sorts entries as l.Order and l.Reverse say.
func (l *lister) sort(list []entry) {
	slices.SortFunc(list, func(a, b entry) int {
		c := 0
		switch l.Order {
		case ByTime:
			c = b.ModTime().Compare(a.ModTime())
		case BySize:
			c = cmp.Compare(b.fileSize(), a.fileSize())
		}
		if c = cmp.Or(c, cmp.Compare(a.shown, b.shown)); l.Reverse {
			c = -c
		}
		return c
	})
}

// detailed reports whether the output or its order needs more than the names of the entries.
func (l *lister) detailed() bool { return l.Long || l.JSON || l.Order != ByName }

// print prints the entries of one directory.
func (l *lister) print(ctx context.Context, c remote.Server, list []entry) {
	l.sort(list)
	if !l.Long && !l.JSON {
		for _, e := range list {
			fmt.Fprintln(l.out, l.name(e.shown))
		}
		return
	}
	readLinks(ctx, c, list)
	owners := ownersOf(ctx, c, list)
	if l.JSON {
		for _, e := range list {
			// Ignore the error: l.out keeps write errors, and the method write returns them.
			_ = console.WriteJSON(l.out, describe(e, owners))
		}
		return
	}
	rows := make([][]string, len(list))
	for i, e := range list {
		rows[i] = longRow(e, owners, l.now, l.Human)
	}
	widths := console.ColumnWidths(rows)
	for i, row := range rows {
		for j, cell := range row {
			// As in ls, numbers are right-aligned and words left-aligned.
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
