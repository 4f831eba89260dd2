// SPDX-License-Identifier: GPL-2.0-or-later

// Accepts every packet of a queue by go-nfqueue, as its documentation shows it: go-nfqueue QUEUE [tuned].
package main

import (
	"context"
	"log"
	"os"
	"strconv"

	nfqueue "github.com/florianl/go-nfqueue/v2"
	"github.com/mdlayher/netlink"
)

func main() {
	number, err := strconv.ParseUint(os.Args[1], 10, 16)
	if err != nil {
		log.Fatal(err)
	}
	tuned := len(os.Args) > 2 && os.Args[2] == "tuned"
	config := nfqueue.Config{
		NfQueue:      uint16(number),
		MaxPacketLen: 0xFFFF,
		MaxQueueLen:  0xFF,
		Copymode:     nfqueue.NfQnlCopyPacket,
	}
	if tuned {
		config.MaxPacketLen = 128
		config.MaxQueueLen = 131072
		config.Flags = nfqueue.NfQaCfgFlagGSO
	}
	queue, err := nfqueue.Open(&config)
	if err != nil {
		log.Fatal(err)
	}
	defer queue.Close()
	if err := queue.SetOption(netlink.NoENOBUFS, true); err != nil {
		log.Fatal(err)
	}
	if tuned {
		if err := queue.Con.SetReadBuffer(64 << 20); err != nil {
			log.Fatal(err)
		}
	}
	accept := func(packet nfqueue.Attribute) int {
		queue.SetVerdict(*packet.PacketID, nfqueue.NfAccept)
		return 0
	}
	ctx := context.Background()
	if err := queue.RegisterWithErrorFunc(ctx, accept, func(error) int { return 0 }); err != nil {
		log.Fatal(err)
	}
	<-ctx.Done()
}
