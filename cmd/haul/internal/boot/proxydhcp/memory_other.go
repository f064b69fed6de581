//go:build !linux

package proxydhcp

import (
	"errors"
	"os"
)

// memoryFile is for Linux.
func memoryFile([]byte) (*os.File, error) { return nil, errors.ErrUnsupported }
