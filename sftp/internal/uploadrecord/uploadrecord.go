// Package uploadrecord writes and reads the record of an upload that can be resumed. The SFTP
// client keeps it in a file beside the upload.
package uploadrecord

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/haul-project/haul/internal/tempname"
	"github.com/haul-project/haul/sftp/internal/wire"
)

// A Record says how much of a resumable upload is complete. It is a line of text. Records are
// written to two slots in turn, so that a write that is cut short leaves the other record intact.
type Record struct {
	Seq    uint64 // number of the record; of two records, the one with the higher number is newer
	Whole  int64  // number of complete bytes, from the start
	Size   int64  // expected size of the file in bytes; 0 if unknown
	Source uint64 // a hash of store.Create.Source
	Open   bool   // the upload that wrote this record may still be under way
	File   string // the random part of the temporary file's name
}

const (
	recordLine = "haul-upload 2 seq=%d whole=%d size=%d source=%016x open=%t file=%s"
	recordSum  = " crc=%08x\n"
)

// Slot is the size in bytes of each of the two slots for records.
const Slot = 256

// AppendTo appends r in its stored form, which is shorter than Slot.
func (r Record) AppendTo(b []byte) []byte {
	start := len(b)
	b = fmt.Appendf(b, recordLine, r.Seq, r.Whole, r.Size, r.Source, r.Open, r.File)
	return fmt.Appendf(b, recordSum, crc32.ChecksumIEEE(b[start:]))
}

// Parse parses a record. It returns false if b does not begin with a valid one.
func Parse(b []byte) (r Record, ok bool) {
	line, _, _ := bytes.Cut(b, []byte{'\n'})
	if len(line) >= Slot {
		return Record{}, false
	}
	var sum uint32
	_, err := fmt.Sscanf(string(line)+"\n", recordLine+recordSum, &r.Seq, &r.Whole, &r.Size, &r.Source, &r.Open, &r.File, &sum)
	// Sscanf also accepts other spellings of the same values; only the line that AppendTo writes is
	// valid.
	if err != nil || r.Whole < 0 || r.Whole > wire.MaxFile || r.Size < 0 || !tempname.IsKey(r.File) ||
		!bytes.Equal(r.AppendTo(nil), append(slices.Clip(line), '\n')) {
		return Record{}, false
	}
	return r, true
}

// Newest returns the newer of the two records in b. ok is false if neither record is valid.
func Newest(b []byte) (newest Record, ok bool) {
	for _, at := range [...]int{0, Slot} {
		r, valid := Parse(b[min(at, len(b)):])
		if valid && (!ok || r.Seq > newest.Seq) {
			newest, ok = r, true
		}
	}
	return newest, ok
}
