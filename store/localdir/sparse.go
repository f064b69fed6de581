package localdir

import (
	"bytes"
	"encoding/binary"
	"io/fs"
)

// holeSize is the size of the pieces that are checked for zeros. It is a page, the smallest unit
// that most file systems allocate.
const holeSize = 4096

var zeros [holeSize]byte

// writeSparse stores p at off, but skips pages of zeros where the file reads as zeros anyway.
//
// It skips only after u.data: nothing but zeros was written there, and unwritten bytes read as
// zeros. A page of zeros before u.data may have to replace data, so it is written like any other
// page. u.data is moved before a write begins, so it also covers data that other goroutines are
// still writing, and the data of failed writes.
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
			run = run[:data-at] // stop at u.data, because after it pages of zeros can be skipped
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

// pages returns the number of bytes of p that come before the first page that is all zeros. With
// `zero` set, it returns the number of bytes before the first page that is not all zeros. off is
// the position of p in the file; p may begin and end within a page.
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

// toPageEnd returns how many bytes of p are in the page that contains off.
func toPageEnd(p []byte, off int64) int {
	return int(min(int64(len(p)), holeSize-off%holeSize))
}

// allZero reports whether p, which is at most a page, consists of zeros. It checks the first 8
// bytes first, because most other data differs there.
func allZero(p []byte) bool {
	if len(p) >= 8 && binary.NativeEndian.Uint64(p) != 0 {
		return false
	}
	return bytes.Equal(p, zeros[:len(p)])
}
