//go:build !linux

package proxydhcp

import (
	"errors"
	"syscall"
)

func sharePort(uint16) (*socket, error) {
	return nil, errors.New("another program uses it, and only Linux lets two programs share it; run haul on another machine")
}

func setBuffer(_ syscall.Conn, set func(int) error) { _ = set(receiveBuffer) }
