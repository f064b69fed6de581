package localdir

import (
	"bytes"
	"encoding/binary"
	"io/fs"
)

// holeSize is the unit in which the file is checked for holes: a page, which is the smallest
// allocation of most file systems.
const holeSize = 4096

var zeros [holeSize]byte

// writeSparse stores p at off, but does not write zeros that the file would have anyway.
//
// This applies from u.data on: only zeros were written there, and unwritten bytes read as zeros. A
// page of zeros before u.data may have to replace data, and is written like any other. As u.data
// moves before any write begins, it covers data that other goroutines are writing, and data of
// failed writes.
func (u *dirUpload) writeSparse(p []byte, off int64) (int, error) {
	data, err := u.dataEnd()
	if err != nil {
		return 0, err
	}
	for n := 0; n < len(p); {
		at := off + int64(n)
		if at >= data {
			n += pages(p[n:], at, true)
		}
		if n == len(p) {
			break
		}
		u.moveDataEnd(off + int64(len(p)))
		at = off + int64(n)
		run := p[n:]
		if at >= data {
			run = run[:pages(run, at, false)]
		} else if int64(len(run)) > data-at {
			run = run[:data-at] // after data, there may be holes
		}
		if err := u.store.hook("write"); err != nil {
			return n, err
		}
		wrote, err := u.file.WriteAt(run, at)
		n += wrote
		if err != nil {
			return n, err
		}
	}
	return len(p), nil
}

// dataEnd returns u.data, or an error if the upload has ended.
func (u *dirUpload) dataEnd() (int64, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.done {
		return 0, fs.ErrClosed
	}
	return u.data, nil
}

func (u *dirUpload) moveDataEnd(end int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.data = max(u.data, end)
}

// pages returns how many bytes of p come before the first page that is all zeros, or with zero set,
// before the first page that is not. The first byte of p belongs at off. The beginning and the end
// of p may be parts of a page.
func pages(p []byte, off int64, zero bool) int {
	n := 0
	for n < len(p) {
		size := toPageEnd(p[n:], off+int64(n))
		if allZero(p[n:n+size]) != zero {
			break
		}
		n += size
	}
	return n
}

// toPageEnd returns how many bytes of p belong to the page that contains off.
func toPageEnd(p []byte, off int64) int {
	return int(min(int64(len(p)), holeSize-off%holeSize))
}

// allZero reports whether p, at most a page, is all zeros. Most other data differs in the first
// bytes.
func allZero(p []byte) bool {
	if len(p) >= 8 && binary.NativeEndian.Uint64(p) != 0 {
		return false
	}
	return bytes.Equal(p, zeros[:len(p)])
}
