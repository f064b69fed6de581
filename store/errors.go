package store

import (
	"errors"

	"github.com/haul-project/haul/store/internal/rules"
)

var (
	// ErrWouldBlock says that the bytes at that offset are not in memory.
	ErrWouldBlock = errors.New("read would wait for the disk")

	// ErrNotRegular says that a name is a directory, a pipe, a device or the like. It is also an
	// [fs.ErrPermission].
	ErrNotRegular = rules.ErrNotRegular

	// ErrNoSpace says that the store has no room: the disk or the quota is full, or a [Mem] or
	// [Sink] is at its limit. A file that exceeds the size allowed by the file system or for the
	// process is a different error, as there may still be room for other files.
	ErrNoSpace = errors.New("no space left in the store")

	// ErrUnavailable says that the files are on another machine that cannot be reached, does not
	// answer, or denies access. It may be available again later.
	ErrUnavailable = errors.New("the files cannot be reached")

	// ErrUnsettled says that a file has changed within the last seconds, so that a further change
	// might leave its time of modification the same. It can be opened a moment later.
	ErrUnsettled = errors.New("the file has only just changed")

	// ErrInPlace says that an upload cannot replace the file of that name, or would change more
	// than its content. The file can be opened, and written in place.
	ErrInPlace = errors.New("the file can only be written in place")

	// ErrBusy says that another upload to the same file, which can be resumed, is still under way.
	ErrBusy = errors.New("another copy to the same file is under way")
)
