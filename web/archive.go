package web

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/haul-project/haul/store"
)

// Bounds of an archive. An archive that would exceed them is cut off.
const (
	maxArchived     = 1 << 20 // entries in all; the same number as maxListed
	maxArchiveDepth = 128     // levels of directories below the first one

	// An entry of a zip stays in memory until the archive is complete. It counts as zipListed
	// entries of a listing, and one more for each zipNameBytes of its name.
	zipListed    = 4
	zipNameBytes = 64
)

// archiveTypes are the kinds of archives, with their media types.
var archiveTypes = map[string]string{"tar": "application/x-tar", "zip": "application/zip"}

// An archiver writes an archive in one of the formats. Names of directories end in a slash.
type archiver interface {
	add(name string, mode fs.FileMode, modified time.Time, size int64) (io.Writer, error)
	Close() error
}

// An archiving is the state of an archive while it is written.
type archiving struct {
	x     directoryList
	out   archiver
	buf   *[copyBytes]byte
	n     int // number of entries so far
	asZip bool
}

// archive answers with an archive of a directory and everything below it. It contains the files
// that a client would get by following the listings.
func (x directoryList) archive(kind string) {
	mediaType, ok := archiveTypes[kind]
	if !ok {
		x.fail(errArchive)
		return
	}
	a := &archiving{x: x, asZip: kind == "zip"}
	var list []entry
	err := x.isDirectory()
	if err == nil && !x.bodiless() {
		list, err = x.entries(x.name)
	}
	if err != nil {
		x.fail(err)
		return
	}
	x.set("Content-Type", mediaType)
	x.set("Content-Disposition", attachment(x.archiveName()+"."+kind))
	x.set("Accept-Ranges", "none")
	if x.bodiless() {
		x.writeHeader(http.StatusOK)
		return
	}
	x.Status = http.StatusOK
	x.started()
	x.writeHeader(http.StatusOK)
	if err := a.write(list); err != nil {
		x.abort(err)
	}
}

// archiveName returns the name of the top directory in the archive. The archive itself has the same
// name with an extension.
func (x directoryList) archiveName() string {
	if x.name == "." {
		return "files"
	}
	return path.Base(x.name)
}

// attachment returns the Content-Disposition that makes a browser save the answer as name (RFC
// 6266).
func attachment(name string) string {
	name = strings.ToValidUTF8(name, "_")
	plain := []byte(name)
	for i, c := range plain {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"\/:*?<>|%`, c) >= 0 {
			plain[i] = '_'
		}
	}
	field := `attachment; filename="` + string(plain) + `"`
	if string(plain) != name {
		field += "; filename*=UTF-8''" + strings.ReplaceAll(url.QueryEscape(name), "+", "%20")
	}
	return field
}

// write sends the archive. list holds the entries of its top directory.
func (a *archiving) write(list []entry) error {
	a.buf = copyBuffers.Get().(*[copyBytes]byte)
	defer copyBuffers.Put(a.buf)
	w := bufio.NewWriterSize(pieceWriter{a.x.exchange}, listingBuffer)
	if a.asZip {
		a.out = newZip(w)
	} else {
		a.out = newTar(w)
	}
	root := entry{modified: a.x.Began.Unix(), mode: 0o755}
	if fi, err := a.x.acct.Store.Stat(a.x.ctx(), a.x.name); err == nil {
		root = entryOf("", fi)
	}
	if err := a.directory(a.x.name, a.x.archiveName()+"/", root, list, 0); err != nil {
		return err // the end of the archive is not written, so that no program takes it for complete
	}
	if err := a.out.Close(); err != nil {
		return err
	}
	return w.Flush()
}

// directory writes the directory called name, and everything below it. The string `as` is the
// directory's name in the archive. The files come first, because afterwards only the entries of the
// subdirectories need to stay in memory. The caller must not keep the list.
func (a *archiving) directory(name, as string, dir entry, list []entry, depth int) error {
	if depth > maxArchiveDepth {
		return errDeepArchive
	}
	if _, err := a.add(as, dir, 0); err != nil {
		return err
	}
	listingQuery{by: "name"}.sort(list)
	var dirs []entry
	files := slices.DeleteFunc(list, func(e entry) bool {
		if e.dir {
			dirs = append(dirs, e)
		}
		return e.dir
	})
	for e := range a.x.drain(files) {
		if err := a.file(path.Join(name, e.name), as+e.name); err != nil {
			return err
		}
	}
	for e := range a.x.drain(dirs) {
		below := path.Join(name, e.name)
		list, err := a.x.entries(below)
		if err == nil {
			err = a.directory(below, as+e.name+"/", e, list, depth+1)
		} else if leftOut(err) {
			a.x.giveListed(len(list))
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// file writes a file. The archive states the size that the file has when it is opened. If the file
// grows meanwhile, the rest is left out, as in any answer.
func (a *archiving) file(name, as string) error {
	if err := a.x.ctx().Err(); err != nil {
		return err
	}
	f, err := a.x.acct.Store.Open(a.x.ctx(), name)
	if err != nil {
		if leftOut(err) {
			return nil
		}
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	e := entryOf("", fi)
	w, err := a.add(as, e, e.size)
	if err != nil {
		return err
	}
	moved, err := copyAt(w, f, 0, e.size, a.buf[:listingBuffer])
	if err == nil && moved < e.size {
		err = ErrShrunk
	}
	return err
}

// leftOut reports whether an error from opening or listing a name means that the archive leaves the
// name out: the client may not read it, it is gone, or it is no longer a file or a directory.
func leftOut(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrNotRegular) ||
		errors.Is(err, syscall.ELOOP)
}

// add begins an entry of the archive, and returns the writer for the entry's content. It returns an
// error if the archive has too many entries.
func (a *archiving) add(as string, e entry, size int64) (io.Writer, error) {
	if a.n++; a.n > maxArchived {
		return nil, errLargeArchive
	}
	if a.asZip {
		weight := zipListed + len(as)/zipNameBytes
		if err := a.x.takeListed(weight); err != nil {
			return nil, err
		}
	}
	mode := e.mode
	switch {
	case mode != 0: // 0 means that the store has no permissions
	case e.dir:
		mode = 0o755
	default:
		mode = 0o644
	}
	return a.out.add(as, mode, time.Unix(e.modified, 0).UTC(), size)
}
