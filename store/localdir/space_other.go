//go:build !darwin && !linux

package localdir

import (
	"errors"
	"os"

	"github.com/haul-project/haul/store"
)

func space(*os.File) (store.Space, error) { return store.Space{}, errors.ErrUnsupported }
