//go:build !linux

package proxydhcp

import (
	"errors"
	"syscall"
)

func sharePort(uint16) (*socket, error) {
	return nil, errors.New("another program of this machine has it, and only on Linux can two share it; run haul on another machine")
}

func setBuffer(_ syscall.Conn, set func(int) error) { _ = set(receiveBuffer) }
