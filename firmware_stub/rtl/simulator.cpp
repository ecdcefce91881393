// SPDX-License-Identifier: Apache-2.0
/* Runs firmware on the source code of a core, which Verilator has translated to the class Vcore. Its ports
 * are those of the module `core` in <name>.sv. A request is granted and answered as OBI has it: the answer
 * comes one cycle after the grant, as from synchronous RAM, and later by the number of wait states. */
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>

#include "machine.hpp"
#include "Vcore.h"
#include "verilated.h"

namespace {

constexpr uint64_t EXCHANGE_CYCLES = 1024;
constexpr int RESET_CYCLES = 10;

volatile std::sig_atomic_t ended = 0;

void end(int) {
    ended = 1;
}

/* One bus of the core, with at most one request under way. */
class Bus {
  public:
    Bus(Machine &machine, unsigned wait_states) : machine_(machine), wait_states_(wait_states) {
    }

    bool grants() const {
        return !busy_;
    }
    bool answers() const {
        return answers_;
    }
    bool failed() const {
        return failed_;
    }
    uint32_t data() const {
        return data_;
    }
    const Access &last() const {
        return access_;
    }

    /* The rising edge of the clock; `request` is what the core asked for, if it did. */
    void clock(bool requested, const Access &request) {
        answers_ = false;
        if (requested && !busy_) {
            access_ = request;
            access_.address &= ~3u;
            left_ = wait_states_;
            busy_ = true;
        } else if (busy_) {
            left_--;
        }
        if (busy_ && left_ == 0) {
            failed_ = !machine_.access(access_, data_);
            if (failed_) {
                data_ = 0; /* no valid instruction */
            }
            busy_ = false;
            answers_ = true;
        }
    }

  private:
    Machine &machine_;
    unsigned wait_states_;
    unsigned left_ = 0;
    bool busy_ = false;
    bool answers_ = false;
    bool failed_ = false;
    uint32_t data_ = 0;
    Access access_{};
};

class Simulation {
  public:
    Simulation(Machine &machine, HostLink &link, unsigned wait_states)
        : machine_(machine), link_(link), wait_states_(wait_states),
          core_(std::make_unique<Vcore>(&context_)) {
    }

    uint64_t cycles() const {
        return cycles_;
    }

    /* Runs until the host closes the link, or a signal ends it. */
    void run() {
        while (ended == 0 && from_reset()) {
            machine_.reset();
        }
        core_->final();
    }

  private:
    /* Runs until the firmware resets the machine, returning true, or until the end. */
    bool from_reset() {
        Bus fetches(machine_, wait_states_);
        Bus transfers(machine_, wait_states_);
        core_->reset_n = 0;
        for (int i = 0; i < RESET_CYCLES; i++) {
            cycle(fetches, transfers);
        }
        core_->reset_n = 1;
        while (!machine_.wants_reset()) {
            cycle(fetches, transfers);
            bool sleeps = core_->asleep != 0 && !machine_.interrupts();
            if ((sleeps || cycles_ % EXCHANGE_CYCLES == 0) && (!link_.exchange(sleeps) || ended != 0)) {
                return false;
            }
            if (transfers.answers() && transfers.failed() && core_->takes_errors == 0) {
                report(transfers.last());
                return true;
            }
        }
        return link_.exchange(false);
    }

    /* A core that cannot be told of a bus error is reset, as a watchdog would. The NUL ends a frame that was
     * being sent; otherwise the text would become part of it. */
    void report(const Access &access) {
        char line[64];
        int size = std::snprintf(line, sizeof line, "bus error: %s 0x%08x\n",
                                 access.write ? "write to" : "read of", access.address);
        link_.send(0);
        for (int i = 0; i < size; i++) {
            link_.send(static_cast<uint8_t>(line[i]));
        }
        (void)link_.exchange(false);
    }

    void cycle(Bus &fetches, Bus &transfers) {
        core_->irq = machine_.interrupts();
        core_->fetch_grant = fetches.grants();
        core_->fetch_valid = fetches.answers();
        core_->fetch_data = fetches.data();
        core_->fetch_error = fetches.answers() && fetches.failed();
        core_->data_grant = transfers.grants();
        core_->data_valid = transfers.answers();
        core_->data_in = transfers.data();
        core_->data_error = transfers.answers() && transfers.failed();
        core_->clk = 0;
        core_->eval();
        bool fetch_request = core_->fetch_request != 0;
        bool data_request = core_->data_request != 0;
        Access fetch{false, core_->fetch_address, 15u, 0};
        Access transfer{core_->data_write != 0, core_->data_address, core_->data_bytes, core_->data_out};
        core_->clk = 1;
        core_->eval();
        fetches.clock(fetch_request, fetch);
        transfers.clock(data_request, transfer);
        cycles_++;
    }

    Machine &machine_;
    HostLink &link_;
    unsigned wait_states_;
    VerilatedContext context_;
    std::unique_ptr<Vcore> core_;
    uint64_t cycles_ = 0;
};

struct Options {
    std::string image;
    std::string link;
    unsigned wait_states = 0;
};

Options parse(int count, char **words) {
    Options options;
    for (int i = 1; i + 1 < count; i += 2) {
        std::string name = words[i];
        if (name == "--image") {
            options.image = words[i + 1];
        } else if (name == "--link") {
            options.link = words[i + 1];
        } else if (name == "--wait-states") {
            options.wait_states = static_cast<unsigned>(std::strtoul(words[i + 1], nullptr, 10));
        } else {
            throw std::runtime_error("no such option: " + name);
        }
    }
    if (options.image.empty() || options.link.empty()) {
        throw std::runtime_error("usage: simulator --image FILE --link HOST:PORT [--wait-states N]");
    }
    return options;
}

} // namespace

int main(int count, char **words) {
    try {
        Options options = parse(count, words);
        struct sigaction action {};
        action.sa_handler = end; /* no restart: it has to end a wait for the host */
        (void)sigaction(SIGTERM, &action, nullptr);
        (void)sigaction(SIGINT, &action, nullptr);
        HostLink link(options.link);
        Machine machine(read_firmware_image(options.image), link);
        Simulation simulation(machine, link, options.wait_states);
        simulation.run();
        std::fprintf(stderr, "simulated %llu cycles in %.2f s of CPU time\n",
                     static_cast<unsigned long long>(simulation.cycles()),
                     static_cast<double>(std::clock()) / CLOCKS_PER_SEC);
        return 0;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "simulator: %s\n", error.what());
        return 1;
    }
}
