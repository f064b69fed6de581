package sftp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"slices"

	"github.com/haul-project/haul/sftp/internal/wire"
)

// A keptRecord says how much of a kept upload is whole. It is a line of text, in
// one of two places in turn, so that one that is cut short leaves the other.
type keptRecord struct {
	seq    uint64 // of two, the one with the higher counts
	whole  int64  // bytes, from the start
	size   int64  // that the file is expected to have; 0 if unknown
	source uint64 // a hash of Create.Source
}

const (
	recordLine = "haul-upload 1 seq=%d whole=%d size=%d source=%016x"
	recordSum  = " crc=%08x\n"
	recordSlot = 256 // bytes from one place to the other
)

// appendTo appends r as it is stored.
func (r keptRecord) appendTo(b []byte) []byte {
	start := len(b)
	b = fmt.Appendf(b, recordLine, r.seq, r.whole, r.size, r.source)
	return fmt.Appendf(b, recordSum, crc32.ChecksumIEEE(b[start:]))
}

// parseRecord returns false for what is no record.
func parseRecord(b []byte) (r keptRecord, ok bool) {
	line, _, _ := bytes.Cut(b, []byte{'\n'})
	if len(line) >= recordSlot {
		return keptRecord{}, false
	}
	var sum uint32
	_, err := fmt.Sscanf(string(line)+"\n", recordLine+recordSum, &r.seq, &r.whole, &r.size, &r.source, &sum)
	// Whatever else Sscanf takes for the same is not what was written.
	if err != nil || r.whole < 0 || r.whole > maxFile || r.size < 0 ||
		!bytes.Equal(r.appendTo(nil), append(slices.Clip(line), '\n')) {
		return keptRecord{}, false
	}
	return r, true
}

// newestRecord returns the newest of the two in b, or false if there is none.
func newestRecord(b []byte) (newest keptRecord, ok bool) {
	for _, at := range [...]int{0, recordSlot} {
		r, valid := parseRecord(b[min(at, len(b)):])
		if valid && (!ok || r.seq > newest.seq) {
			newest, ok = r, true
		}
	}
	return newest, ok
}

// readRecord reads the record of an earlier upload. What is no record is none.
func (k *keptUpload) readRecord() (r keptRecord, ok bool, err error) {
	f, err := k.c.openRegular(k.ctx, k.record)
	if err != nil {
		if isStatus(err) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			err = nil // anew will run into it
		}
		return r, false, err
	}
	defer f.Close()
	b := make([]byte, 2*recordSlot)
	n, _ := f.ReadAt(b, 0) // what is missing is no record
	r, ok = newestRecord(b[:n])
	return r, ok, nil
}

// openRegular opens a file for reading that is ours alone.
func (c *Client) openRegular(ctx context.Context, name string) (*File, error) {
	fi, err := c.Lstat(ctx, name)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() || fi.Mode().Perm() != firstPerm {
		return nil, fs.ErrPermission
	}
	return c.OpenFile(ctx, name, os.O_RDONLY, 0)
}

// mark records that so many bytes are whole, once they are on the server's disk
// if sync says so. The caller holds marking.
func (k *keptUpload) mark(ctx context.Context, whole int64, sync bool) error {
	if sync && !k.noSync && k.c.ext.Has(wire.ExtFsync) {
		err := k.f.remote.ask(ctx, call{take: takeOK, again: true, slow: true}, wire.AppendFsync)
		if err != nil {
			return err
		}
	}
	r := keptRecord{seq: k.seq + 1, whole: whole, size: k.size, source: k.source}
	b := r.appendTo(nil)
	if !k.made {
		if err := k.createEmpty(ctx, k.record, b); err != nil {
			return err
		}
		k.made, k.seq, k.marked = true, r.seq, whole
		return nil
	}
	f, err := k.c.OpenFile(ctx, k.record, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	// createEmpty begins with 1, in the first place.
	_, err = f.WriteAt(b, int64((r.seq+1)%2)*recordSlot)
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		k.seq, k.marked = r.seq, whole
	}
	return err
}
