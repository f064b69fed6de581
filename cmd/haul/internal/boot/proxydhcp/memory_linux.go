package proxydhcp

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// memoryFile returns a file in memory with this content. A process whose access to files is
// restricted may be unable to create any other kind of file.
func memoryFile(content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("haul-boot", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "memory of boot clients")
	if _, err := f.Write(content); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
