package store

import (
	"context"
	"io/fs"
	"slices"

	"github.com/haul-project/haul/internal/tempname"
)

// isUnfinished reports whether the last element of a name is that of a file that an SFTP
// client of haul uploads, or of its record. [UploadOnly] and [CreateOnly] take a client
// that knows the name of the file for its owner, and the record has that name in it.
func isUnfinished(name string) bool {
	return tempname.May(name, tempname.Upload, tempname.Record)
}

// Finished returns t without the files that SFTP clients of haul are uploading, and
// without their records: they are not listed and are an [fs.ErrNotExist]. It is for those
// who read: whoever sees such a name could take the file for theirs where they upload.
// Uploads of others are never in sight.
//
// Files can be created and removed. All else that changes anything is an
// [fs.ErrPermission].
func Finished(t Tree) Tree { return visible{refusing{t, errVisible}, isUnfinished, errReserved} }

// A filter is those of the entries of a directory that are not hidden.
type filter struct {
	Entries
	hidden func(fi fs.FileInfo) bool
}

// Next returns none only at the end, as [Entries] has it.
func (f filter) Next(into []fs.FileInfo) (int, error) {
	for {
		n, err := f.Entries.Next(into)
		kept := slices.DeleteFunc(into[:n], f.hidden)
		if len(kept) > 0 || err != nil || len(into) == 0 {
			return len(kept), err
		}
	}
}

// read returns an error unless the name may be read through the view. Only its maker
// reads an unfinished file.
func (u *uploadOnly) read(ctx context.Context, op, name string) error {
	if !u.reads {
		return u.refuse(op, name)
	}
	if !isUnfinished(name) {
		return nil
	}
	return u.own(ctx, op, name, false)
}

// hides reports whether an entry of a directory is kept from sight.
func (u *uploadOnly) hides(name string, dir bool) bool {
	return !dir && (!u.reads || isUnfinished(name))
}
