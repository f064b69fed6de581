//go:build !linux

package proxydhcp

import "errors"

func sharePort(uint16) (*socket, error) { return nil, errors.ErrUnsupported }
