package store

import (
	"errors"

	"github.com/haul-project/haul/store/internal/rules"
)

var (
	// ErrWouldBlock says that the requested bytes are not in memory, so that reading them would
	// have to wait.
	ErrWouldBlock = errors.New("read would wait for the disk")

	// ErrNotRegular says that a name belongs to a directory, a pipe, a device or the like, rather
	// than to a regular file. It is also an [fs.ErrPermission].
	ErrNotRegular = rules.ErrNotRegular

	// ErrNoSpace says that the store is full: the disk or the quota is full, or a [Mem] or [Sink]
	// is at its limit. If a file only exceeds the largest size that the file system or the process
	// allows, the error is a different one, as the store may still have room for other files.
	ErrNoSpace = errors.New("no space left in the store")

	// ErrUnavailable says that the files are on another machine that cannot be reached, does not
	// answer, or denies access. The files may become available again.
	ErrUnavailable = errors.New("the files cannot be reached")

	// ErrUnsettled says that a file was changed within the last few seconds. Another change could
	// leave the time of modification the same, and so go unnoticed. The file can be opened a moment
	// later.
	ErrUnsettled = errors.New("the file has only just changed")

	// ErrInPlace says that an upload cannot replace the file of that name, or that the new file
	// would differ in more than its content. The caller can open the file and write it in place
	// instead.
	ErrInPlace = errors.New("the file can only be written in place")

	// ErrBusy says that another upload to the same file, which can be resumed, is still in
	// progress.
	ErrBusy = errors.New("another copy to the same file is under way")
)
