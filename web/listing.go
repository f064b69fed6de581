package web

import (
	"context"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/haul-project/haul/internal/shares"
	"github.com/haul-project/haul/store"
)

const (
	// maxAbove is the largest depth of a directory in which links to directories are listed. Before
	// such a link is listed, it is compared with each directory above.
	maxAbove = 128

	listingBatch = 256 // entries read at a time
)

// A directoryList is an exchange that lists a directory.
type directoryList struct{ *exchange }

// takeListed counts n more entries that the request holds in memory. It returns an error if there
// would be too many, in all or for the request's source. exchange.end releases the remaining ones.
func (x directoryList) takeListed(n int) error {
	if !x.h.state.listed.Take(x.source, n, shares.Bound{Most: maxListed, Times: listedTimes}) {
		return errListing
	}
	x.listed += n
	return nil
}

func (x directoryList) giveListed(n int) {
	x.listed -= n
	x.h.state.listed.Give(x.source, n)
}

// drain yields the entries of a list in turn. It releases entries in several steps before the end of
// the list, so that the whole list does not stay in memory while a slow peer receives it. The caller
// must not keep the list.
func (x directoryList) drain(list []entry) iter.Seq[entry] {
	return func(yield func(entry) bool) {
		for len(list) > 0 {
			n := len(list)
			if n > listingBatch {
				n /= 2
			}
			for _, e := range list[:n] {
				if !yield(e) {
					return
				}
			}
			list = slices.Clone(list[n:]) // the copy lets the memory of the list be freed
			x.giveListed(n)
		}
	}
}

// list answers with the entries of a directory.
func (x directoryList) list(how listingQuery) {
	if how.archive != "" {
		x.archive(how.archive)
		return
	}
	x.set("Vary", "Accept")
	mediaType := "text/html; charset=utf-8"
	if how.json {
		mediaType = "application/json"
	}
	if x.bodiless() { // counting all entries for a HEAD would be wasted work
		if err := x.isDirectory(); err != nil {
			x.fail(err)
			return
		}
		x.set("Content-Type", mediaType)
		x.writeHeader(http.StatusOK)
		return
	}
	entries, err := x.entries(x.name)
	if err != nil {
		x.fail(err)
		return
	}
	all := len(entries)
	found := how.keep(entries)
	x.giveListed(all - len(found))
	how.sort(found)
	x.set("Content-Type", mediaType)
	if x.acct.Access.writes() {
		x.set("Content-Security-Policy", uploadPolicy)
	} else {
		x.set("Content-Security-Policy", pagePolicy)
	}
	x.writeHeader(http.StatusOK)
	w := pieceWriter{x.exchange}
	if how.json {
		err = writeJSON(w, x.drain(found))
	} else {
		err = writeHTML(w, x.Name, x.acct.Access, how, x.drain(found), len(found), all)
	}
	if err != nil {
		x.abort(err)
	}
}

func (x directoryList) isDirectory() error {
	if x.name == "." {
		return nil // a store may have no description of its root
	}
	fi, err := x.acct.Store.Stat(x.ctx(), x.name)
	if err == nil && !fi.IsDir() {
		err = fs.ErrNotExist
	}
	return err
}

// A gathering holds the entries of a directory while they are read.
type gathering struct {
	name  string // the name of the directory
	list  []entry
	above []fs.FileInfo // descriptions of the directory and its parents; nil until needed
	ahead int           // how many entries are counted by takeListed and not in list yet
}

// entries returns the entries of a directory, in no particular order. It leaves out entries that no
// client could get: entries that are neither files nor directories, links that are dangling or lead
// out of the store, and names that no path can express. It also leaves out links to the directory
// itself or to one above it, because a client that follows all links would never finish. All
// returned entries are counted by takeListed, even if there is an error.
func (x directoryList) entries(name string) (list []entry, err error) {
	g := &gathering{name: name}
	defer func() { x.giveListed(g.ahead) }()
	switch can := store.CapabilitiesOf(x.acct.Store); {
	case can.OpenDir != nil:
		err = x.readEntries(can.OpenDir, g)
	case can.ReadDir != nil:
		var all []fs.DirEntry
		if all, err = can.ReadDir(x.ctx(), name); err != nil {
			return nil, err
		}
		for _, e := range all {
			fi, err := e.Info()
			if err != nil {
				continue // the entry is gone
			}
			if err := x.addEntry(g, fi); err != nil {
				return g.list, err
			}
		}
	default:
		return nil, fs.ErrNotExist // the answer is the same as without Listing
	}
	return g.list, err
}

func (x directoryList) readEntries(open func(context.Context, string) (store.Entries, error), g *gathering) error {
	dir, err := open(x.ctx(), g.name)
	if err != nil {
		return err
	}
	defer dir.Close()
	batch := make([]fs.FileInfo, listingBatch)
	for {
		n, err := dir.Next(batch)
		for _, fi := range batch[:n] {
			if err := x.addEntry(g, fi); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

func (x directoryList) addEntry(g *gathering, fi fs.FileInfo) error {
	name := fi.Name()
	if strings.IndexByte(name, '\\') >= 0 {
		return nil
	}
	if fi.Mode().Type() == fs.ModeSymlink {
		var err error
		if fi, err = x.acct.Store.Stat(x.ctx(), path.Join(g.name, name)); err != nil {
			return x.ctx().Err()
		}
		if fi.IsDir() && x.isAbove(g, fi) {
			return nil
		}
	}
	if !fi.Mode().IsRegular() && !fi.IsDir() {
		return nil
	}
	if len(g.list) == maxListing {
		return errManyListed
	}
	if g.ahead == 0 {
		// Each call takes a lock that all listings share. Near the bound, count one by one.
		if g.ahead = listingBatch; x.takeListed(g.ahead) != nil {
			g.ahead = 0
			if err := x.takeListed(1); err != nil {
				return err
			}
			g.ahead = 1
		}
	}
	g.ahead--
	g.list = append(g.list, entryOf(name, fi))
	return nil
}

func entryOf(name string, fi fs.FileInfo) entry {
	return entry{name, fi.Size(), fi.ModTime().Unix(), fi.Mode().Perm(), fi.IsDir()}
}

// isAbove reports whether dir is the listed directory or one of its parents. If the listed directory
// is deeper than maxAbove, isAbove returns true without a comparison.
func (x directoryList) isAbove(g *gathering, dir fs.FileInfo) bool {
	if strings.Count(g.name, "/") >= maxAbove {
		return true
	}
	if g.above == nil {
		g.above = []fs.FileInfo{} // not nil, so that the search is not repeated even if it finds nothing
		for name := g.name; ; name = path.Dir(name) {
			if fi, err := x.acct.Store.Stat(x.ctx(), name); err == nil {
				g.above = append(g.above, fi)
			}
			if name == "." {
				break
			}
		}
	}
	return slices.ContainsFunc(g.above, func(fi fs.FileInfo) bool { return store.SameFile(fi, dir) })
}

// A pieceWriter sends a listing or an archive while it is written, and sets a deadline for each
// piece. No piece is larger than listingBuffer, so that a peer that receives nothing is noticed
// soon.
type pieceWriter struct{ x *exchange }

func (p pieceWriter) Write(b []byte) (int, error) {
	p.x.patient(0)
	n, err := p.x.w.Write(b)
	wait := p.x.addSent(int64(n))
	if err == nil {
		err = p.x.pause(wait)
	}
	return n, err
}
