//go:build !linux || haul_portable

package store

import "errors"

// canMap is false: mapped memory cannot grow without a copy here, so blocks are allocated on the
// heap.
const canMap = false

func mapMemory(int) ([]byte, error)     { return nil, errors.ErrUnsupported }
func remap([]byte, int) ([]byte, error) { return nil, errors.ErrUnsupported }
func unmap([]byte)                      {}
