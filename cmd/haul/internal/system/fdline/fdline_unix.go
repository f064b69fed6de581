//go:build unix

package fdline

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
)

// Pair creates a line between this process and one that it will start. theirs is the end for that
// process.
func Pair() (ours *net.UnixConn, theirs *os.File, err error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	near := os.NewFile(uintptr(fds[0]), "line")
	defer near.Close()
	theirs = os.NewFile(uintptr(fds[1]), "line")
	if ours, err = Of(near); err != nil {
		_ = theirs.Close()
	}
	return ours, theirs, err
}

// Of returns the line whose end is the file f. The caller closes both the line and f.
func Of(f *os.File) (*net.UnixConn, error) {
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	line, ok := c.(*net.UnixConn)
	if !ok {
		_ = c.Close()
		return nil, fmt.Errorf("%s is a socket of network %q", f.Name(), c.LocalAddr().Network())
	}
	return line, nil
}

// Send sends a line of text, which must end in a line feed, together with files. The other process
// receives duplicates of the files.
func Send(line *net.UnixConn, text string, files []*os.File) error {
	fds := make([]int, len(files))
	for i, f := range files {
		// Do not call Fd, because it would make reads of a socket block. That would affect this
		// process too, because its duplicates of the socket share the setting.
		raw, err := f.SyscallConn()
		if err == nil {
			err = raw.Control(func(fd uintptr) { fds[i] = int(fd) })
		}
		if err != nil {
			return err
		}
	}
	n, _, err := line.WriteMsgUnix([]byte(text), syscall.UnixRights(fds...), nil)
	if err == nil && n < len(text) {
		_, err = line.Write([]byte(text[n:]))
	}
	return err
}

// Receive returns the next line of text, without its line feed, and the files that were sent with
// it, up to MaxFiles. If more lines were sent at about the same time, the text may include them.
// After an error there are no files.
func Receive(line *net.UnixConn) (texts string, files []*os.File, err error) {
	defer func() {
		if err != nil {
			for _, f := range files {
				_ = f.Close()
			}
			files = nil
		}
	}()
	var all []byte
	b := make([]byte, MaxLine)
	oob := make([]byte, syscall.CmsgSpace(4*MaxFiles))
	for {
		n, m, _, _, err := line.ReadMsgUnix(b, oob)
		if err == nil && n == 0 {
			err = net.ErrClosed
		}
		if err != nil {
			return "", files, err
		}
		files = append(files, filesBeside(oob[:m])...)
		if all = append(all, b[:n]...); len(all) > MaxLine {
			return "", files, errors.New("a line is too long")
		}
		if len(files) > MaxFiles {
			return "", files, errors.New("a line has too many files")
		}
		if texts, whole := strings.CutSuffix(string(all), "\n"); whole {
			return texts, files, nil
		}
	}
}

// filesBeside returns the files in the control messages oob that arrived with a line.
func filesBeside(oob []byte) (files []*os.File) {
	messages, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for i := range messages {
		fds, err := syscall.ParseUnixRights(&messages[i])
		if err != nil {
			continue
		}
		for _, fd := range fds {
			syscall.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "handed"))
		}
	}
	return files
}
