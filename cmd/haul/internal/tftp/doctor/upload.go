package doctor

import (
	"bytes"

	"github.com/haul-project/haul/tftp/transfer"
)

// uploadSize is the size of the uploaded file: some whole blocks and a part of one.
const uploadSize = 3*transfer.DefaultBlockSize + 100

// uploader sends a file as tftp-hpa does, in octet mode without options, and
// repeats its last block as if the last ACK had been lost.
var uploader = persona{name: "tftp-hpa 5.2 upload", sends: "octet WRQ, the last block twice; then a read of it", act: actUpload, stage: alone}

func actUpload(v *visit, _ *download) {
	v.differs = ruleUpload
	content := bytes.Repeat([]byte("haul doctor was here\n"), uploadSize/21+1)[:uploadSize]
	p, ok := v.ask(request(transfer.WriteRequest, v.env.upload, "octet"))
	for block := int64(1); ; block++ {
		if !ok {
			v.breaks(ruleUpload, Failed, "no ACK %d to the upload of %q", block-1, v.env.upload)
			return
		}
		if p.op != transfer.Acknowledgement {
			v.breaks(ruleUpload, Failed, "%v to the upload of %q", p, v.env.upload)
			v.sendAbort("closed")
			return
		}
		from := (block - 1) * transfer.DefaultBlockSize
		if from > uploadSize {
			break
		}
		b := dataPacket(block, content[from:min(from+transfer.DefaultBlockSize, uploadSize)])
		fits := func(p packet) bool { return p.op == transfer.ErrorPacket || p.block == uint16(block) }
		if p, ok = v.next(b, fits); ok && from+transfer.DefaultBlockSize > uploadSize {
			if p, ok := v.next(b, fits); !ok || p.op != transfer.Acknowledgement {
				v.breaks(ruleUploadRepeat, Warning, "the last block, sent again, was not acknowledged again")
			}
		}
	}
	if v.reopen(0) != nil {
		return
	}
	readBack(v, content)
}

// readBack fetches the uploaded file and compares it.
func readBack(v *visit, content []byte) {
	e := *v.env
	e.name = v.env.upload
	v.env = &e
	get := download{refusal: ruleUpload}
	if get.run(v) && !bytes.Equal(v.content, content[:min(len(content), len(v.content))]) {
		v.breaks(ruleUpload, Failed, "the upload came back changed: %s where %d were sent", v.amount(), len(content))
	}
	v.content, v.size = nil, -1 // the content is not from the file that the other personas fetch
}
