package store

import (
	"github.com/haul-project/haul/internal/tempname"
	"github.com/haul-project/haul/store/internal/rules"
)

// isUnfinished reports whether the last element of a name is that of a file that an SFTP
// client of haul uploads, or of its record. [UploadOnly] and [CreateOnly] take a client
// that knows the name of the file for its owner, and the record has that name in it.
func isUnfinished(name string) bool {
	return tempname.May(name, tempname.Upload, tempname.Record)
}

// Finished returns t without the files that SFTP clients of haul are uploading, and
// without their records: they are not listed and are an [fs.ErrNotExist]. It is for those
// who read: a user who sees such a name could take the file for their own upload.
// Uploads of others are never in sight.
//
// Files can be created and removed. All else that changes anything is an
// [fs.ErrPermission].
func Finished(t Tree) Tree { return visible{refusing{t, errVisible}, isUnfinished, rules.ErrReserved} }
