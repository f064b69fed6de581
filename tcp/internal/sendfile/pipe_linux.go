//go:build linux && !haul_portable

package sendfile

import "golang.org/x/sys/unix"

const (
	// PipeSize is the number of bytes that a pipe between two descriptors can hold.
	PipeSize = 256 << 10

	// maxPipes is the largest number of empty pipes that are kept for reuse.
	maxPipes = 64
)

// Splice moves at most n bytes from one descriptor to another, of which one is a pipe. It does not
// wait: it moves as many bytes as are available and as there is room for.
func Splice(from, to, n int) (int, error) {
	for {
		m, err := unix.Splice(from, nil, to, nil, n, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		if err != unix.EINTR {
			return max(int(m), 0), err
		}
	}
}

// A Pipe is a kernel pipe through which bytes move from one descriptor to another. R is its read
// end, and W its write end.
type Pipe struct{ R, W int }

var pipes = make(chan Pipe, maxPipes)

// TakePipe returns an empty pipe: a kept one if there is any, and otherwise a new one.
func TakePipe() (Pipe, error) {
	select {
	case p := <-pipes:
		return p, nil
	default:
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return Pipe{}, err
	}
	// The result is ignored: if the user's limit for pipes is reached, the pipe keeps its default
	// size.
	_, _ = unix.FcntlInt(uintptr(fds[0]), unix.F_SETPIPE_SZ, PipeSize)
	return Pipe{fds[0], fds[1]}, nil
}

// GiveBack keeps an empty pipe for reuse, or closes it if enough are kept. It closes a pipe that is
// not empty.
func (p Pipe) GiveBack(empty bool) {
	if empty {
		select {
		case pipes <- p:
			return
		default:
		}
	}
	_, _ = unix.Close(p.R), unix.Close(p.W)
}

// Read reads from the read end of the pipe, so that a Pipe is an [io.Reader].
func (p Pipe) Read(b []byte) (int, error) {
	n, err := unix.Read(p.R, b)
	return max(n, 0), err
}
