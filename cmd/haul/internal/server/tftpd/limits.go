package tftpd

import (
	"fmt"
	"runtime"

	"github.com/haul-project/haul/cmd/haul/internal/server/service"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/cmd/haul/internal/server/site"
	"github.com/haul-project/haul/tftp"
)

// These constants describe the memory that TFTP needs in addition to --memory, in bytes: see
// "Memory" in docs/tftp.md.
const (
	memoryPerCPU      = 20 << 20
	memoryPerTransfer = 16 << 10
)

// Memory returns the memory that the service needs, in bytes.
func Memory(cfg *settings.TFTP) int64 {
	return int64(runtime.GOMAXPROCS(0))*memoryPerCPU + int64(cfg.MaxTransfers)*memoryPerTransfer + cfg.Memory
}

// These are the numbers of descriptors that TFTP needs: one for each file that is read, however
// many clients read that file, and two for each upload.
const (
	filesPerRead  = 1
	filesPerWrite = 2
)

// fitDescriptors limits the number of open files, if `limit` descriptors are not enough for the
// maximum number of transfers.
func fitDescriptors(srv *tftp.Config, upload site.Policy, limit int) {
	each := filesPerRead
	if upload != site.UploadNone {
		each = filesPerWrite
	}
	most := max(1, (limit-min(service.SpareDescriptors, limit/2))/each)
	if srv.MaxTransfers > most {
		srv.MaxFiles = most
		if srv.MaxTransfers != tftp.Defaults().MaxTransfers || most < service.FewFiles {
			srv.Log.Info(fmt.Sprintf("open-file limit %d allows transfers of %d different files at once; raise ulimit -n (LimitNOFILE=) for more", limit, most))
		}
	}
}
