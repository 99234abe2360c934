// One matcher for several threads, each with frames of its own, and handles that destroy themselves: C++17.
//
// c++ -std=c++17 threads.cpp $(pkg-config --cflags --libs flcc) -pthread -o threads && ./threads
#include <flcc.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Destroy {
    void operator()(flcc_plan *plan) const { flcc_plan_destroy(plan); }
    void operator()(flcc_matcher *matcher) const { flcc_matcher_destroy(matcher); }
};

using Plan = std::unique_ptr<flcc_plan, Destroy>;
using Matcher = std::unique_ptr<flcc_matcher, Destroy>;

void done(flcc_status status) {
    if (status != FLCC_OK) {
        throw std::runtime_error(std::string(flcc_status_text(status)) + ": " + flcc_last_error());
    }
}

Plan plan(const std::string &spec, const std::string &settings = {}) {
    flcc_plan *made = nullptr;
    done(flcc_plan_create(spec.c_str(), settings.c_str(), &made));
    return Plan(made);
}

Matcher bind(const Plan &plan, const std::vector<std::uint16_t> &templates) {
    flcc_matcher *made = nullptr;
    done(flcc_matcher_create(plan.get(), templates.data(), nullptr, nullptr, FLCC_U16, &made));
    return Matcher(made);
}

constexpr std::size_t height = 64, width = 96, side = 12;

std::vector<std::uint16_t> frame(std::uint32_t seed) {
    std::vector<std::uint16_t> samples(height * width);
    for (auto &sample : samples) {
        seed = seed * 1664525u + 1013904223u;
        sample = static_cast<std::uint16_t>(seed >> 16);
    }
    return samples;
}

}  // namespace

int main() try {
    const Plan planned = plan("zncc:u16:0@64x96*12x12:valid", "threads=1");
    // The template: what stands in frame 0 at row 30, column 40.
    const auto first = frame(0);
    std::vector<std::uint16_t> part(side * side);
    for (std::size_t i = 0; i < part.size(); i++) {
        part[i] = first[(30 + i / side) * width + 40 + i % side];
    }
    const Matcher matcher = bind(planned, part);

    // Every thread hides it somewhere else in its own frame, and looks for it.
    std::array<bool, 4> found{};
    std::vector<std::thread> threads;
    for (std::size_t number = 0; number < found.size(); number++) {
        threads.emplace_back([&, number] {
            auto own = frame(static_cast<std::uint32_t>(number + 1));
            for (std::size_t i = 0; i < part.size(); i++) {
                own[(7 * number + i / side) * width + 11 * number + i % side] = part[i];
            }
            flcc_peak best;
            std::size_t count = 0;
            const auto status = flcc_peaks(matcher.get(), own.data(), nullptr, 1, nullptr, &best, 1, &count);
            found[number] = status == FLCC_OK && count == 1 && best.position[0] == 7 * number &&
                            best.position[1] == 11 * number && best.score > 0.99999;
        });
    }
    for (auto &thread : threads) {
        thread.join();
    }
    bool right = true;
    for (std::size_t number = 0; number < found.size(); number++) {
        std::cout << "thread " << number << (found[number] ? ": found\n" : ": lost\n");
        right = right && found[number];
    }
    try {
        plan("zncc:u16:64x96*100x12:valid");
        right = false;
    } catch (const std::runtime_error &error) {
        std::cout << error.what() << '\n';
    }
    return right ? 0 : 1;
} catch (const std::exception &error) {
    std::cerr << error.what() << '\n';
    return 1;
}
