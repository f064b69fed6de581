//go:build !linux || haul_portable

package store

import "errors"

// canMap says that memory cannot grow without a copy here, so it is allocated instead.
const canMap = false

func mapMemory(int) ([]byte, error)     { return nil, errors.ErrUnsupported }
func remap([]byte, int) ([]byte, error) { return nil, errors.ErrUnsupported }
func unmap([]byte)                      {}
