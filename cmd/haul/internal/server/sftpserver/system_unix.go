//go:build unix

package sftpserver

import (
	"log/syslog"
	"os"
	"os/signal"
	"syscall"
)

// set sets the umask of the process, if -u is given.
func (u *Umask) set() error {
	if u.given {
		syscall.Umask(u.bits)
	}
	return nil
}

// openStdio returns duplicates of standard input and output. Closing a duplicate interrupts pending
// calls. openStdio also makes this process ignore SIGPIPE: when the client has left, the next write
// fails, and the process can clean up before it exits.
func openStdio(in, out *os.File) (_, _ *os.File, err error) {
	signal.Ignore(syscall.SIGPIPE)
	var all [2]*os.File
	for i, f := range [...]*os.File{in, out} {
		fd, err := syscall.Dup(int(f.Fd()))
		if err != nil {
			return nil, nil, err
		}
		syscall.CloseOnExec(fd)
		if err := syscall.SetNonblock(fd, true); err != nil {
			return nil, nil, err
		}
		all[i] = os.NewFile(uintptr(fd), f.Name())
	}
	return all[0], all[1], nil
}

// logName is the name of the program in syslog messages. It is the name of OpenSSH's sftp-server,
// so that rules for the log of that program apply to haul too.
const logName = "sftp-server"

// openSyslog connects to the syslog that listens at socket; "" means the syslog of this machine.
func openSyslog(f Facility, socket string) (write func(l Level, text string), closeLog func(), err error) {
	network := ""
	if socket != "" {
		network = "unixgram"
	}
	w, err := syslog.Dial(network, socket, syslog.Priority(f)<<3|syslog.LOG_INFO, logName)
	if err != nil {
		return nil, nil, err
	}
	write = func(l Level, text string) {
		switch { // ignore errors of the syslog, because they cannot be reported anywhere
		case l <= levelError:
			_ = w.Err(text)
		case l <= levelVerbose:
			_ = w.Info(text)
		default:
			_ = w.Debug(text)
		}
	}
	return write, func() { _ = w.Close() }, nil
}
