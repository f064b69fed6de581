package service

import (
	"os"

	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
)

// SpareDescriptors is the number of descriptors that a service needs for everything but transfers:
// sockets, directories, files that are being opened, and metrics.
const SpareDescriptors = 128

// SmallFiles is how many small files TFTP and HTTP each keep open for the next reader. These files
// may also not use more than an eighth of the descriptors of the service.
const SmallFiles = 256

// FewFiles decides when a service logs that the number of descriptors limits its open files. If the
// limit is below FewFiles, the service always logs that. Otherwise it logs that only if a setting
// asks for more files.
const FewFiles = 1000

// Share returns how many of the process's descriptors each service may use, if the process may have
// `limit` descriptors in total.
func Share(cfg *settings.Config, limit int) int {
	n := 0
	for _, served := range []bool{cfg.ServesTFTP(), cfg.ServesSFTP(), cfg.ServesHTTP()} {
		if served {
			n++
		}
	}
	return limit / n
}

// Existing returns those of the paths at which a file or directory exists.
func Existing(paths []string) (there []string) {
	for _, path := range paths {
		if _, err := os.Stat(path); err == nil {
			there = append(there, path)
		}
	}
	return there
}
