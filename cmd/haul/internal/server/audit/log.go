// Package audit records in a file what clients have done on a server. The file is append-only and
// consists of JSON lines, with the hashes of uploads.
//
// The log is complete, or says how many lines it has lost, and how many it has left out because
// strangers caused too many. A line that cannot be written, because the disk is full or too slow, is
// counted. The count is written as a separate line once there is room.
package audit

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/activity"
	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/internal/linequeue"
	"github.com/haul-project/haul/internal/ownfile"
)

const (
	// lookEvery is the minimum time between two checks whether the file was renamed. A check is
	// made before a line is written.
	lookEvery = time.Second

	// perm holds the permissions of a new log file.
	perm = 0o600
)

// A Log is an audit log. Lines are queued, and a separate goroutine writes them.
type Log struct {
	path   string
	owners []int
	log    *slog.Logger
	lines  *linequeue.Queue[activity.Event]
	few    linequeue.Budget // bounds the lines that strangers can cause

	// Only the goroutine that writes lines uses these fields.
	file    *os.File
	info    os.FileInfo // describes the open file, to compare it with the file at `path`
	looked  time.Time   // when the log last checked that `path` still leads to the open file
	stays   bool        // opening a new file at `path` has failed, which was already logged; lines go to the old file
	torn    bool        // the file ends with a part of a line
	missing int64       // number of lines that were lost, and that the log does not mention yet
	buf     []byte

	written, lost atomic.Int64
}

// Open opens a log, and creates the file if it is missing. If an earlier process left the last line
// incomplete, the next line that is written begins on a new line. Open and the Log report their
// problems to log. The file must belong to this process's user, to root or to one of the owners.
func Open(path string, log *slog.Logger, owners ...int) (*Log, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	l := &Log{path: path, owners: owners, log: log}
	if err := l.open(); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			err = fmt.Errorf("%w; make its directory first", err)
		}
		return nil, fmt.Errorf("start the audit log: %w", err)
	}
	l.lines = linequeue.New(l.write, l.gap)
	l.few.Write = l.leftOut
	go l.lines.Run()
	return l, nil
}

// open opens the file at the log's path. It follows no symbolic link, because the directory may
// belong to the user that the server becomes, and a reload opens the file as root.
func (l *Log) open() error {
	const flag = os.O_APPEND | os.O_CREATE
	f, err := ownfile.Open(l.path, os.O_RDWR|flag, perm, l.owners...)
	if errors.Is(err, os.ErrPermission) { // a confined process may write, but not read
		f, err = ownfile.Open(l.path, os.O_WRONLY|flag, perm, l.owners...)
	}
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return err
	}
	if l.file != nil {
		_ = l.file.Close()
	}
	l.file, l.info, l.looked, l.torn = f, info, time.Now(), endsTorn(f, info.Size())
	return nil
}

// endsTorn reports whether a file ends with a part of a line. For a file that cannot be read, it
// reports false.
func endsTorn(f *os.File, size int64) bool {
	var last [1]byte
	if size == 0 {
		return false
	}
	n, _ := f.ReadAt(last[:], size-1)
	return n == 1 && last[0] != '\n'
}

// Add adds a line. It never blocks. If a stranger can cause the event, the line counts against the
// share of its source.
func (l *Log) Add(e activity.Event) {
	if e.Fruitless() {
		cause, last := e.Protocol, e.Peer
		switch {
		case e.Event == activity.LoginFailed:
			cause += loginCause
		case e.User != "":
			cause, last = cause+userCause, e.User
		}
		if !l.few.Take(e.Time, cause, e.Source(), last) {
			return
		}
		e.Shorten()
	}
	l.lines.Add(e)
}

// These are appended to the protocol in the causes of lines about failed logins, and about what users
// who have logged in could not do. They have budgets of their own, so that the requests of strangers
// do not hide them.
const (
	loginCause = " login"
	userCause  = " user"
)

// leftOut adds a line that says how many lines were left out.
func (l *Log) leftOut(cause string, n int64, last string) bool {
	protocol, kind, _ := strings.Cut(cause, " ")
	e := activity.Event{Event: activity.LeftOut, Time: time.Now(), Protocol: protocol, Peer: last, Lines: n}
	switch " " + kind {
	case loginCause:
		e.Operation = "login"
	case userCause:
		e.User, e.Peer = last, ""
	}
	return l.lines.Add(e)
}

// write writes a line. If lines were lost, it first writes a line with their number.
func (l *Log) write(e activity.Event) {
	l.follow()
	if l.sayMissing() && l.writeLine(e) == nil {
		return
	}
	l.missing++
	l.lost.Add(1)
}

// gap adds `lost` to the number of missing lines. The queue had no room for these lines.
func (l *Log) gap(lost int64) {
	l.missing += lost
	l.sayMissing()
}

// sayMissing writes how many lines were lost, if any. It reports whether all losses have been
// written.
func (l *Log) sayMissing() bool {
	if l.missing == 0 {
		return true
	}
	err := l.writeLine(activity.Event{Event: activity.Lost, Time: time.Now(), Lines: l.missing})
	if err == nil {
		l.log.Warn("audit: lines are lost, as the disk was too slow or full", "lines", l.missing, "file", l.path)
		l.missing = 0
	}
	return err == nil
}

// writeLine writes a line completely or not at all.
func (l *Log) writeLine(e activity.Event) error {
	l.buf = l.buf[:0]
	if l.torn {
		l.buf = append(l.buf, '\n')
	}
	l.buf = e.AppendLine(l.buf)
	n, err := l.file.Write(l.buf)
	if err == nil {
		l.torn = false
		l.written.Add(1)
		return nil
	}
	if l.missing == 0 {
		l.log.Error("audit: a line cannot be written; later ones are tried, and the file will say how many are lost", "error", err)
	}
	if n > 0 && l.cut(int64(n)) != nil { // if no byte was written, the end of the file is unchanged
		l.torn = true
	}
	return err
}

// cut removes the partial line that was written last, unless another process has written after it.
func (l *Log) cut(n int64) error {
	end, err := l.file.Seek(0, io.SeekCurrent) // the position where the write ended
	if err != nil {
		return err
	}
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() != end {
		return errors.New("another process has written")
	}
	return l.file.Truncate(end - n)
}

// follow opens the path again if it no longer leads to the open file, for instance because
// logrotate has renamed the file.
func (l *Log) follow() {
	if time.Since(l.looked) < lookEvery {
		return
	}
	l.looked = time.Now()
	named, err := os.Stat(l.path)
	if err == nil && os.SameFile(named, l.info) || err != nil && !errors.Is(err, os.ErrNotExist) {
		return
	}
	if err := l.open(); err != nil {
		if !l.stays {
			l.log.Warn("audit: the file was renamed, and a new one cannot be opened; lines go to the old one", "error", err)
		}
		l.stays = true
		return
	}
	if l.stays {
		l.log.Info("audit: the file has its name again, and lines go there", "file", l.path)
	}
	l.stays = false
}

// RegisterMetrics registers the counters. For a nil *Log there are no counters.
func (l *Log) RegisterMetrics(r *meter.Registry) {
	if l == nil {
		return
	}
	r.Counter("audit_lines_total", "Lines of the audit log.", l.written.Load)
	r.Counter("audit_lines_lost_total", "Lines of the audit log that could not be written.", func() int64 { return l.lost.Load() + l.lines.Lost() })
}

// Close writes the remaining lines, for at most a second.
func (l *Log) Close() {
	if l == nil {
		return
	}
	l.few.Flush()
	if left := l.lines.Close(); left > 0 {
		l.log.Error("audit: lines are lost, as the disk is too slow", "lines", left, "file", l.path)
		return // do not close the file: the goroutine that writes still uses it
	}
	l.sayMissing()
	_ = l.file.Close()
}
