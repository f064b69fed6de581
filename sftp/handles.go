package sftp

import (
	"crypto/rand"
	"encoding/binary"
	"io"
	"io/fs"
	"iter"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// handleSize is the length of the handles that the server sends to clients, in bytes.
const handleSize = 8

// A sessionHandle is an open file or directory of a session.
type sessionHandle struct {
	// key is the handle that the client receives: its index in the table, and a serial number that
	// is never reused.
	key      string
	conn     *userConn     // the session's connection
	name     string        // the store's name for the path that the client opened
	file     store.Handle  // nil for a hidden upload and a directory
	upload   *hiddenUpload // set only for an upload that is or was hidden
	dir      *dirListing   // nil for a file
	transfer *Transfer     // nil for a directory
	readAt   int64         // value of session.flushes at the last read of this handle
	ended    bool          // a read was answered with EOF
	away     error         // error of the last read that failed because the files were unavailable; nil if none did
	awayAt   time.Time     // time of the read that failed with the error `away`
}

// path returns the file's path on the disk, or "" if it is unknown.
func (h *sessionHandle) path() string {
	if h.upload != nil {
		return h.upload.path
	}
	return store.LocationOf(h.file).Path
}

func (h *sessionHandle) writeAt(p []byte, off int64) (n int, err error) {
	if h.upload != nil {
		n, err = h.upload.WriteAt(p, off)
	} else {
		n, err = h.file.WriteAt(p, off)
	}
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return n, err
}

// delivered reports whether the client opened the file only for reading and has received all of it.
// In this case a missing CLOSE does not make the transfer an error. flushes is the session's
// current count of sent batches of replies.
func (h *sessionHandle) delivered(flushes int64) bool {
	if h.file == nil || h.transfer.Write || flushes <= h.readAt {
		return false
	}
	if h.ended {
		return true
	}
	fi, err := h.file.Stat()
	sent := h.transfer.Sent()
	return err == nil && sent > 0 && sent >= fi.Size()
}

// close closes the file or directory. The argument why is nil if the client closed it, and
// otherwise the reason why it was left open.
func (h *sessionHandle) close(why error) (err error) {
	switch {
	case h.dir != nil:
		return h.dir.entries.Close()
	case h.upload != nil:
		err = h.upload.leave(h, why)
	default:
		if h.transfer.Write && h.conn.server.Ended != nil {
			h.transfer.written(h.file)
		}
		err = h.file.Close()
	}
	h.transfer.fail(why)
	h.transfer.fail(err)
	h.transfer.Duration = time.Since(h.transfer.Began)
	if h.conn.server.Ended != nil {
		h.conn.server.Ended(h.transfer)
	}
	return err
}

// A handleTable holds the open handles of a session. Each handle has a serial number, so that the
// handle of a closed file does not match a later file with the same index.
type handleTable struct {
	open   []*sessionHandle // indexed by the first half of a handle's key; nil if the index is free
	free   []uint32         // free indexes, for new handles
	serial uint32           // serial number of the next handle
}

// leap sets the next serial to a random number. It is called after the first handle, which always
// has the serial zero: a client can predict that handle and use it before the reply has arrived, as
// package sftpclient does. All later serials follow the random number, so that a handle of one
// session is not valid in another.
func (t *handleTable) leap() {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	t.serial = binary.BigEndian.Uint32(b[:]) | 1
}

// add puts h into the table and sets its key.
func (t *handleTable) add(h *sessionHandle) {
	at := uint32(len(t.open))
	if n := len(t.free); n > 0 {
		at, t.free = t.free[n-1], t.free[:n-1]
	} else {
		t.open = append(t.open, nil)
	}
	var key [handleSize]byte
	binary.BigEndian.PutUint32(key[:], at)
	binary.BigEndian.PutUint32(key[4:], t.serial)
	if t.serial == 0 {
		t.leap()
	} else {
		t.serial++
	}
	h.key = string(key[:])
	t.open[at] = h
}

// get returns the open file or directory with that key, or nil if the key is not valid.
func (t *handleTable) get(key []byte) *sessionHandle {
	if len(key) != handleSize {
		return nil
	}
	at := binary.BigEndian.Uint32(key)
	if int64(at) >= int64(len(t.open)) || t.open[at] == nil || t.open[at].key != string(key) {
		return nil
	}
	return t.open[at]
}

// file is like get, but returns nil for a directory too.
func (t *handleTable) file(key []byte) *sessionHandle {
	if h := t.get(key); h != nil && h.dir == nil {
		return h
	}
	return nil
}

func (t *handleTable) remove(h *sessionHandle) {
	at := binary.BigEndian.Uint32([]byte(h.key))
	t.open[at] = nil
	t.free = append(t.free, at)
}

// all yields the open handles. The caller may remove a handle while it iterates.
func (t *handleTable) all() iter.Seq[*sessionHandle] {
	return func(yield func(h *sessionHandle) bool) {
		for _, h := range t.open {
			if h != nil && !yield(h) {
				return
			}
		}
	}
}

// A dirListing is an open directory.
type dirListing struct {
	entries store.Entries
	batch   [listingBatch]fs.FileInfo
	ready   []fs.FileInfo // the part of `batch` that no reply has listed yet
	dots    []dot         // the entries "." and "..", until a reply has listed them
}

// A dot is an entry of a listing. It is named after "." and "..", which stores do not list, but
// POSIX does.
type dot struct {
	name  string
	attrs wire.Attrs
	links uint64
}

// listingBatch is how many entries are read from the store at a time.
const listingBatch = 64
