package service

import (
	"os"

	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
)

// SpareDescriptors is the number of descriptors that a service needs for everything but transfers:
// sockets, directories, files that are being opened, and metrics.
const SpareDescriptors = 128

// SmallFiles is how many small files TFTP and HTTP each keep open for the next reader. An eighth of
// the service's descriptors is another bound.
const SmallFiles = 256

// FewFiles is the number of open files below which a limit that follows from the number of
// descriptors is always logged. From this number on, it is logged only if a setting asks for more.
const FewFiles = 1000

// Share returns each service's share of the descriptors of the process.
func Share(cfg *settings.Config, limit int) int {
	n := 0
	for _, served := range []bool{cfg.ServesTFTP(), cfg.ServesSFTP(), cfg.ServesHTTP()} {
		if served {
			n++
		}
	}
	return limit / n
}

// Existing returns the paths that exist.
func Existing(paths []string) (there []string) {
	for _, path := range paths {
		if _, err := os.Stat(path); err == nil {
			there = append(there, path)
		}
	}
	return there
}
