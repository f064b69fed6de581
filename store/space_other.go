//go:build !darwin && !linux

package store

import (
	"errors"
	"os"
)

func space(*os.File) (Space, error) { return Space{}, errors.ErrUnsupported }
