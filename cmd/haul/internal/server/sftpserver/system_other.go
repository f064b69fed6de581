//go:build !unix

package sftpserver

import (
	"errors"
	"os"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
)

// set returns an error if -u is given, because this system has no umask.
func (u *Umask) set() error {
	if u.given {
		return failure.Usage.Errorf("-u %v: this system has no umask", u)
	}
	return nil
}

func openStdio(in, out *os.File) (_, _ *os.File, err error) { return in, out, nil }

func openSyslog(Facility, string) (write func(l Level, text string), closeLog func(), err error) {
	return nil, nil, errors.ErrUnsupported
}
